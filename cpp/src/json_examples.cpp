// Two passes: the first finds the members and judges the syntax of the whole body, the second
// decodes the examples. So a syntax error wins over any other, the signature may be named behind
// the examples, and the second pass meets well-formed text only. Neither recurses.
#include "headrace/json_examples.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "headrace/base64.hpp"
#include "headrace/utf8.hpp"

#include "decode_fault.hpp"
#include "example_writer.hpp"
#include "json_document.hpp"
#include "json_place.hpp"
#include "json_string.hpp"
#include "json_syntax.hpp"

namespace headrace {

namespace {

std::uint64_t align8(std::uint64_t n) noexcept { return (n + 7) & ~std::uint64_t{7}; }

/// The JSON type of the value at `p`, as TF Serving names it.
std::string json_type(const char *p, const char *end) {
  switch (peek(p, end)) {
  case '{':
    return "Object";
  case '[':
    return "Array";
  case '"':
    return "String";
  case 't':
    return "True";
  case 'f':
    return "False";
  case 'n':
    return "Null";
  default:
    return "Number";
  }
}

// Decodes one Example after another into a buffer.
class ExampleReader {
public:
  /// `signature`: nullptr where it is not known.
  ExampleReader(const Text &text, const Signature *signature, bool finite_only, Faults &faults,
                ByteBuffer &out)
      : end_(text.end), signature_(signature), finite_only_(finite_only), faults_(faults),
        writer_(out) {}

  /// Takes the Example at `p`; yields the text after it, or nullptr with a fault set.
  const char *take(const char *p) {
    if (peek(p, end_) != '{')
      return faults_.set(ErrorCode::kStructure, p,
                         "Example must be JSON object but got JSON " + json_type(p, end_),
                         "an object of features by name, such as {\"x\": [1.5], \"tag\": \"a\"}");
    writer_.begin_example();
    p = skip_blanks(p + 1, end_);
    bool closed = peek(p, end_) == '}';
    p += closed ? 1 : 0;
    while (!closed) {
      StringToken name;
      p = scan_name(skip_blanks(p, end_), end_, name, faults_.syntax);
      if (p != nullptr)
        p = take_feature(name, skip_blanks(p, end_));
      if (p != nullptr)
        p = scan_delimiter(p, end_, true, closed, faults_.syntax);
      if (p == nullptr)
        return nullptr;
    }
    writer_.end_example();
    return p;
  }

private:
  const char *take_feature(const StringToken &name, const char *p) {
    unescaped_name_.clear();
    if (name.escaped)
      unescaped_name_ = unescape(name, end_);
    name_ = name.escaped ? std::string_view(unescaped_name_) : name.raw();
    declared_float_ = signature_ != nullptr && signature_->is_float_feature(name_);
    writer_.begin_feature();
    p = peek(p, end_) == '[' ? take_list(p) : take_value(p);
    if (p != nullptr)
      writer_.end_feature(name_);
    return p;
  }

  const char *take_list(const char *p) {
    p = skip_blanks(p + 1, end_);
    bool closed = peek(p, end_) == ']';
    p += closed ? 1 : 0;
    while (!closed) {
      p = take_value(skip_blanks(p, end_));
      if (p != nullptr)
        p = scan_delimiter(p, end_, false, closed, faults_.syntax);
      if (p == nullptr)
        return nullptr;
    }
    return p;
  }

  const char *take_value(const char *p) {
    switch (peek(p, end_)) {
    case '"':
      return take_string(p);
    case '{':
      return take_object(p);
    case '[':
    case 'n':
      return refuse_type(p);
    case 't':
    case 'f':
      return take_bool(p);
    default:
      return begins_non_finite(p, end_) ? take_non_finite(p) : take_number(p);
    }
  }

  const char *take_string(const char *p) {
    StringToken token;
    const char *const next = scan_string(p, end_, token, faults_.syntax);
    if (next == nullptr || !has_kind(FeatureKind::kBytes, p))
      return nullptr;
    if (token.escaped)
      writer_.add_bytes(unescape(token, end_));
    else
      writer_.add_bytes(token.raw());
    return next;
  }

  const char *take_object(const char *p) {
    StringToken token;
    const char *const next = scan_b64_object(p, end_, token);
    if (next == nullptr)
      return refuse_type(p);
    if (!has_kind(FeatureKind::kBytes, p))
      return nullptr;
    const std::string text = unescape(token, end_);
    bytes_.resize(base64_bound(text.size()));
    const Base64Result result = decode_base64(text, std::as_writable_bytes(std::span(bytes_)));
    if (!result)
      return refuse_base64(token, result.bad, p, "feature '" + excerpt(name_) + "'", faults_);
    writer_.add_bytes(std::string_view(bytes_).substr(0, result.bytes));
    return next;
  }

  const char *take_bool(const char *p) {
    Literal literal{};
    const char *const next = scan_literal(p, end_, literal, faults_.syntax);
    return next != nullptr && put_integer(literal == Literal::kTrue ? 1 : 0, p) ? next : nullptr;
  }

  const char *take_non_finite(const char *p) {
    Literal literal{};
    const char *const next = scan_literal(p, end_, literal, faults_.syntax);
    if (next == nullptr)
      return nullptr;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float value = literal == Literal::kNan        ? std::numeric_limits<float>::quiet_NaN()
                        : literal == Literal::kInfinity ? kInfinity
                                                        : -kInfinity;
    return put_float(value, p) ? next : nullptr;
  }

  const char *take_number(const char *p) {
    Decimal decimal;
    const char *const next = scan_number_token(p, end_, decimal, faults_.syntax);
    if (next == nullptr)
      return nullptr;
    // One that no 64-bit integer holds is a float, as in TF Serving.
    const auto integer = decimal.integer ? to_integer(decimal, false) : std::nullopt;
    if (!integer || declared_float_)
      return put_float(to_float32(decimal), p) ? next : nullptr;
    constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
    if (!integer->negative && integer->magnitude > kMax)
      return faults_.set(ErrorCode::kRange, p,
                         "Feature: " + excerpt(name_) +
                             " has uint64_t element. Only int64_t is supported.",
                         "the largest is " + std::to_string(kMax));
    const std::uint64_t bits = integer->negative ? ~integer->magnitude + 1 : integer->magnitude;
    return put_integer(static_cast<std::int64_t>(bits), p) ? next : nullptr;
  }

  bool put_integer(std::int64_t value, const char *at) {
    if (declared_float_)
      return put_float(static_cast<float>(value), at);
    if (!has_kind(FeatureKind::kInt64, at))
      return false;
    writer_.add_int64(value);
    return true;
  }

  bool put_float(float value, const char *at) {
    if (!has_kind(FeatureKind::kFloat, at))
      return false;
    if (finite_only_ && !std::isfinite(value))
      return faults_.set(ErrorCode::kNonFinite, at,
                         "Feature: " + excerpt(name_) + " has an element that is no finite float",
                         "finite numbers only") != nullptr;
    writer_.add_float(value);
    return true;
  }

  // Whether the feature is of this kind, or of none yet. False with a fault at `at`.
  bool has_kind(FeatureKind kind, const char *at) {
    const FeatureKind first = writer_.kind();
    if (first == FeatureKind::kNone || first == kind)
      return true;
    return faults_.set(ErrorCode::kType, at,
                       "Unexpected element type in feature: " + excerpt(name_) +
                           " expecting type: " + std::string(name_of(first)),
                       "this value is " + std::string(name_of(kind)) +
                           ", and the first one decides for all") != nullptr;
  }

  const char *refuse_type(const char *p) {
    return faults_.set(ErrorCode::kType, p,
                       "Feature: " + excerpt(name_) +
                           " has element with unexpected JSON type: " + json_type(p, end_),
                       "a feature is a number, true, false, a string or {\"b64\": \"...\"}, or a "
                       "flat list of them");
  }

  const char *end_;
  const Signature *signature_;
  bool finite_only_;
  Faults &faults_;
  ExampleWriter writer_;
  std::string_view name_; ///< of the feature
  bool declared_float_ = false;
  std::string unescaped_name_;
  std::string bytes_; ///< of base64
};

class RequestReader {
public:
  RequestReader(std::span<const std::byte> body, const SignatureSet *signatures,
                const DecodeOptions &options)
      : signatures_(signatures), options_(options),
        text_{reinterpret_cast<const char *>(body.data()),
              reinterpret_cast<const char *>(body.data()) + body.size()},
        rules_{options.max_depth, !is_valid_utf8(between(text_.begin, text_.end))} {
    request_.signature_name = options.default_signature;
  }

  Result<ExamplesRequest> run() {
    if (read_body() && judge_envelope() && take_context() && take_examples())
      return std::move(request_);
    return to_error(text_, faults_);
  }

private:
  // The whole body's syntax, and where its members are.
  bool read_body() {
    const char *p = root_ = find_root(text_, faults_.syntax);
    if (p == nullptr)
      return false;
    p = *p == '{' ? read_members(p) : skip_value(p, text_.end, 0, rules_, faults_.syntax);
    return p != nullptr && check_end(p, text_, faults_.syntax);
  }

  const char *read_members(const char *p) {
    const char *const end = text_.end;
    p = skip_blanks(p + 1, end);
    bool closed = peek(p, end) == '}';
    p += closed ? 1 : 0;
    while (!closed) {
      StringToken name;
      p = scan_name(skip_blanks(p, end), end, name, faults_.syntax, rules_.check_utf8);
      if (p == nullptr)
        return nullptr;
      p = skip_blanks(p, end);
      note_member(name, p);
      p = skip_value(p, end, 1, rules_, faults_.syntax);
      if (p != nullptr)
        p = scan_delimiter(p, end, true, closed, faults_.syntax);
      if (p == nullptr)
        return nullptr;
    }
    return p;
  }

  // Of members with the same name the first counts.
  void note_member(const StringToken &name, const char *value) {
    const auto note = [&](std::string_view wanted, const char *&at) {
      if (at == nullptr && equals(name, wanted, text_.end))
        at = value;
    };
    note("examples", examples_at_);
    note("context", context_at_);
    note("signature_name", named_at_);
  }

  bool judge_envelope() {
    if (rules_.check_utf8) // unreachable while every byte is within a string or refused by syntax
      return faults_.syntax.set(SyntaxFault::kUtf8, text_.begin) != nullptr;
    if (!check_object(root_, text_, faults_) ||
        !check_signature_name(named_at_, root_, text_, faults_))
      return false;
    request_.signature_at = text_.offset(named_at_ == nullptr ? root_ : named_at_);
    StringToken token;
    if (named_at_ != nullptr &&
        scan_string(named_at_, text_.end, token, faults_.syntax) != nullptr &&
        token.begin != token.end)
      request_.signature_name = unescape(token, text_.end);
    return true;
  }

  ExampleReader reader_to(ByteBuffer &out) {
    const auto index =
        signatures_ == nullptr ? std::nullopt : signatures_->find(request_.signature_name);
    const Signature *signature = index ? &signatures_->all()[*index] : nullptr;
    return {text_, signature, options_.finite_only, faults_, out};
  }

  bool take_context() {
    return context_at_ == nullptr || reader_to(request_.context).take(context_at_) != nullptr;
  }

  bool refuse(const char *at, const char *literal) {
    return faults_.set(ErrorCode::kStructure, at,
                       "JSON Value: " + excerpt_of_value(text_, root_) + " " + literal,
                       R"(an example of a body: {"examples": [{"x": 1.5}, {"x": 2.0}]})") !=
           nullptr;
  }

  bool take_examples() {
    // TF Serving says classify to regress too.
    if (examples_at_ == nullptr)
      return refuse(root_, "When method is classify, key 'examples' is expected and was not found");
    const char *p = examples_at_;
    if (*p != '[')
      return refuse(p, "Expecting 'examples' value to be an list/array");
    p = skip_blanks(p + 1, text_.end);
    if (peek(p, text_.end) == ']')
      return refuse(examples_at_, "'examples' value is an empty array");
    ExampleReader reader = reader_to(request_.examples);
    for (bool closed = false; !closed;) {
      p = reader.take(skip_blanks(p, text_.end));
      if (p != nullptr)
        p = scan_delimiter(p, text_.end, false, closed, faults_.syntax);
      if (p == nullptr)
        return false;
      request_.ends.push_back(request_.examples.size());
    }
    return true;
  }

  const SignatureSet *signatures_; ///< nullptr: not known
  const DecodeOptions &options_;
  Text text_;
  SyntaxRules rules_;
  Faults faults_;
  ExamplesRequest request_;
  const char *root_ = nullptr;
  // Values of these members; nullptr: not there.
  const char *named_at_ = nullptr;
  const char *context_at_ = nullptr;
  const char *examples_at_ = nullptr;
};

} // namespace

std::uint64_t ExamplesRequest::tensor_bytes() const noexcept {
  return align8(examples.size() + context.size() * count()) + 8 * (count() + 1);
}

bool ExamplesRequest::write(TensorSink &sink, std::size_t index) const {
  const std::uint64_t bytes = tensor_bytes();
  const std::span<std::byte> room = sink.grow(index, 0, bytes);
  if (room.empty())
    return false;
  std::byte *at = room.data();
  std::byte *const table = at + bytes - 8 * (count() + 1);
  const auto put = [&at](std::string_view text) {
    if (!text.empty())
      std::memcpy(at, text.data(), text.size());
    at += text.size();
  };
  const auto put_offset = [&](std::uint64_t element) {
    const auto offset = static_cast<std::uint64_t>(at - room.data());
    std::memcpy(table + 8 * element, &offset, 8);
  };
  put_offset(0);
  for (std::uint64_t i = 0; i < count(); ++i) {
    const std::uint64_t begin = i == 0 ? 0 : ends[i - 1];
    put(context.view());
    put(examples.view().substr(begin, ends[i] - begin));
    put_offset(i + 1);
  }
  std::memset(at, 0, static_cast<std::size_t>(table - at));
  const std::uint64_t dims[] = {count()};
  sink.finish(index, DType::kString, Shape(dims), bytes);
  return true;
}

Result<ExamplesRequest> decode_examples(std::span<const std::byte> body,
                                        const SignatureSet *signatures,
                                        const DecodeOptions &options) {
  return RequestReader(body, signatures, options).run();
}

} // namespace headrace
