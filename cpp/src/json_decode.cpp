// The envelope of a predict request: the body's top level, and which error wins.
//
// One pass: tensors are decoded where they stand. Only when the signature might still be named
// behind them (several signatures, none named yet, and the rest of the body could name one) are
// they passed over first and decoded afterwards. After a semantic error its value is passed over
// from its start for the syntax that is left, since syntax errors win.
// Spec: TensorFlow Serving REST, order of evaluation.
#include "headrace/json_decode.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "decode_fault.hpp"
#include "example_body.hpp"
#include "json_document.hpp"
#include "json_place.hpp"
#include "json_string.hpp"
#include "json_syntax.hpp"
#include "name_hints.hpp"
#include "request_forms.hpp"
#include "text_survey.hpp"

namespace headrace {

namespace {

// Signatures that accept nothing and a sink that takes nothing, for check_predict.
class NoSink final : public TensorSink {
public:
  std::span<std::byte> grow(std::size_t, std::size_t, std::size_t) override { return {}; }
  void finish(std::size_t, DType, const Shape &, std::uint64_t) override {}
};

TextSurvey survey_of(std::span<const std::byte> body, Simd level) noexcept {
  return survey_text({reinterpret_cast<const char *>(body.data()), body.size()}, level);
}

bool takes_strings_only(const SignatureSet &signatures) noexcept {
  const auto is_string = [](const auto &input) { return input.second.dtype == DType::kString; };
  return std::all_of(signatures.all().begin(), signatures.all().end(),
                     [&](const Signature &signature) {
                       const auto &inputs = signature.inputs();
                       return std::all_of(inputs.begin(), inputs.end(), is_string);
                     });
}

// The body, `instances` and a row, around a tensor.
constexpr std::size_t kDepthOfRow = 3;

class RequestReader {
public:
  /// `survey`: what is known of the body; without it the body is taken for UTF-8, and commas are
  /// not counted.
  RequestReader(std::span<const std::byte> body, const SignatureSet *signatures,
                const DecodeOptions &options, TensorSink &sink,
                const std::optional<TextSurvey> &survey)
      : signatures_(signatures), name_(options.default_signature),
        scope_{text_of_body(body), options, sink, 0, Utf8Check(text_of_body(body)), {}},
        end_(scope_.text.end) {
    rules_.max_depth = options.max_depth;
    if (!survey)
      return;
    rules_.check_utf8 = !survey->is_ascii && !is_valid_utf8(between(scope_.text.begin, end_));
    scope_.commas = survey->commas;
  }

  bool is_utf8() const noexcept { return scope_.utf8.is_valid(); }

  Result<PredictRequest> run() {
    if (!read_body())
      return to_error(scope_.text, scope_.faults);
    scope_.faults.semantic.reset();
    if (judge())
      return std::move(request_);
    if (scope_.faults.semantic)
      add_example(*scope_.faults.semantic);
    return to_error(scope_.text, scope_.faults);
  }

  Result<std::monostate> check() {
    if (!read_body())
      return to_error(scope_.text, scope_.faults);
    scope_.faults.semantic.reset();
    if (judge_envelope())
      return std::monostate{};
    return to_error(scope_.text, scope_.faults);
  }

private:
  static Text text_of_body(std::span<const std::byte> body) {
    const auto *const begin = reinterpret_cast<const char *>(body.data());
    return {begin, begin + body.size()};
  }

  bool decoding() const noexcept { return signatures_ != nullptr && !rules_.check_utf8; }

  // The whole body's syntax, with the tensors on the way. False with a syntax error set.
  bool read_body() {
    const char *p = root_ = find_root(scope_.text, scope_.faults.syntax);
    if (p == nullptr)
      return false;
    if (*p == '{')
      p = read_members(p);
    else if (*p == '[' && scope_.options.bare_list)
      p = read_tensors(Form::kInstances, p, 0);
    else
      p = skip_value(p, end_, 0, rules_, scope_.faults.syntax);
    return p != nullptr && check_end(p, scope_.text, scope_.faults.syntax);
  }

  const char *read_members(const char *p) {
    p = skip_blanks(p + 1, end_);
    bool closed = peek(p, end_) == '}';
    p += closed ? 1 : 0;
    while (!closed) {
      StringToken name;
      p = scan_name(skip_blanks(p, end_), end_, name, scope_.faults.syntax, rules_.check_utf8);
      if (p != nullptr)
        p = read_member(name, skip_blanks(p, end_));
      if (p != nullptr)
        p = scan_delimiter(p, end_, true, closed, scope_.faults.syntax);
      if (p == nullptr)
        return nullptr;
    }
    return p;
  }

  const char *read_member(const StringToken &name, const char *p) {
    if (equals(name, "instances", end_))
      return read_tensors(Form::kInstances, p, 1);
    if (equals(name, "inputs", end_))
      return read_tensors(Form::kInputs, p, 1);
    if (equals(name, "signature_name", end_))
      return read_signature_name(p);
    const char *const next = skip_value(p, end_, 1, rules_, scope_.faults.syntax);
    if (next != nullptr && scope_.options.keep_extra)
      request_.extra.emplace_back(unescape(name, end_), between(p, next));
    return next;
  }

  const char *read_signature_name(const char *p) {
    if (named_at_ != nullptr)
      return skip_value(p, end_, 1, rules_, scope_.faults.syntax); // the first wins
    named_at_ = p;
    if (peek(p, end_) != '"')
      return skip_value(p, end_, 1, rules_, scope_.faults.syntax);
    StringToken token;
    p = scan_string(p, end_, token, scope_.faults.syntax, rules_.check_utf8);
    if (p != nullptr && token.begin != token.end)
      name_ = unescape(token, end_);
    return p;
  }

  enum class Form : std::uint8_t { kInstances, kInputs };

  const char *read_tensors(Form form, const char *p, std::size_t depth) {
    const char *&at = form == Form::kInstances ? instances_at_ : inputs_at_;
    const bool first = instances_at_ == nullptr && inputs_at_ == nullptr;
    if (at == nullptr)
      at = p;
    if (first && decoding() && signature() != nullptr && is_settled(p)) {
      if (const char *const next = decode(form, p); next != nullptr)
        return next;
      if (scope_.faults.syntax.fault != SyntaxFault::kNone)
        return nullptr;
    }
    SyntaxRules rules = rules_; // the limit is for what nobody reads; tensors have their own
    rules.max_depth = std::max(rules.max_depth, kMaxRank + kDepthOfRow);
    return skip_value(p, end_, depth, rules, scope_.faults.syntax);
  }

  // Can nothing behind `p` choose another signature?
  bool is_settled(const char *p) const {
    if (named_at_ != nullptr || signatures_->all().size() == 1)
      return true;
    const std::string_view rest = between(p, end_);
    return rest.find('\\') == rest.npos && rest.find("\"signature_name\"") == rest.npos;
  }

  const Signature *signature() const {
    const auto index = signatures_->find(name_);
    if (!index || signatures_->all()[*index].inputs().empty())
      return nullptr;
    return &signatures_->all()[*index];
  }

  // Decodes the tensors at `p`; a semantic fault is kept for judge().
  const char *decode(Form form, const char *p) {
    scope_.faults.semantic.reset();
    const bool rows = form == Form::kInstances;
    const char *const next = rows ? decode_instances(p, *signature(), scope_, request_.rows)
                                  : decode_inputs(p, *signature(), scope_, request_.rows);
    request_.format = rows ? Format::kRow : Format::kColumnar;
    decoded_ = true;
    tensor_fault_ = std::move(scope_.faults.semantic);
    return next;
  }

  bool fail(ErrorCode code, const char *at, std::string message, std::string hint = {}) {
    return scope_.faults.set(code, at, std::move(message), std::move(hint)) != nullptr;
  }

  // What is judged before a model is looked up.
  bool judge_envelope() {
    if (rules_.check_utf8) // unreachable while every byte is within a string or refused by syntax
      return scope_.faults.syntax.set(SyntaxFault::kUtf8, scope_.text.begin) != nullptr;
    if (!(*root_ == '[' && scope_.options.bare_list) &&
        !check_object(root_, scope_.text, scope_.faults))
      return false;
    return check_signature_name(named_at_, root_, scope_.text, scope_.faults);
  }

  // Shows those who did not meet the form of a request one that does.
  void add_example(Fault &fault) const {
    constexpr ErrorCode kOfForm[] = {ErrorCode::kStructure, ErrorCode::kMissingInput,
                                     ErrorCode::kUnknownInput, ErrorCode::kShape};
    const Signature *const of = signature();
    if (of == nullptr ||
        std::find(std::begin(kOfForm), std::end(kOfForm), fault.code) == std::end(kOfForm))
      return;
    if (const std::string body = example_body(*of); !body.empty())
      fault.hint += (fault.hint.empty() ? "" : "; ") + ("an example of a body: " + body);
  }

  bool judge() { return judge_envelope() && judge_signature() && judge_form() && judge_tensors(); }

  bool judge_signature() {
    const auto index = signatures_->find(name_);
    const char *const at = named_at_ != nullptr ? named_at_ : root_;
    if (!index) {
      std::vector<std::string_view> names;
      for (const Signature &each : signatures_->all())
        names.emplace_back(each.name());
      return fail(ErrorCode::kUnknownSignature, at,
                  "Serving signature name: \"" + excerpt(name_) + "\" not found in signature def",
                  suggest(name_, names));
    }
    if (signatures_->all()[*index].inputs().empty())
      return fail(ErrorCode::kStructure, at,
                  "Failed to get input map for signature: " + excerpt(name_));
    request_.signature_name = name_;
    request_.signature_index = *index;
    return true;
  }

  bool judge_form() {
    if (instances_at_ != nullptr && inputs_at_ != nullptr)
      return fail(ErrorCode::kStructure, std::max(instances_at_, inputs_at_),
                  "JSON Value: " + excerpt_of_value(scope_.text, root_) +
                      " Not formatted correctly expecting only one of 'inputs' or 'instances' keys "
                      "to exist ");
    if (instances_at_ == nullptr && inputs_at_ == nullptr)
      return fail(ErrorCode::kStructure, root_, "Missing 'inputs' or 'instances' key",
                  found_instead());
    return true;
  }

  // The keys of a body that has neither of the two. Its syntax is right.
  std::string found_instead() const {
    constexpr std::size_t kMost = 8;
    std::string found;
    std::size_t count = 0;
    const char *p = skip_blanks(root_ + 1, end_);
    SyntaxError none;
    for (bool closed = peek(p, end_) == '}'; !closed && count <= kMost; ++count) {
      StringToken name;
      p = scan_name(skip_blanks(p, end_), end_, name, none);
      found.append(count == 0 ? "found " : ", ")
          .append(count == kMost ? "..." : "'" + excerpt(unescape(name, end_)) + "'");
      p = skip_value(skip_blanks(p, end_), end_, 1, {scope_.options.max_depth}, none);
      p = scan_delimiter(p, end_, true, closed, none);
    }
    return found;
  }

  bool judge_tensors() {
    if (!decoded_) {
      const bool rows = instances_at_ != nullptr;
      decode(rows ? Form::kInstances : Form::kInputs, rows ? instances_at_ : inputs_at_);
    }
    scope_.faults.semantic = std::move(tensor_fault_);
    return !scope_.faults.any();
  }

  const SignatureSet *signatures_; ///< nullptr: only the envelope is checked
  std::string name_;               ///< of the signature, as far as the body has been read
  DecodeScope scope_;
  const char *end_;
  SyntaxRules rules_;
  PredictRequest request_;
  const char *root_ = nullptr;
  const char *named_at_ = nullptr;     ///< value of `signature_name`
  const char *instances_at_ = nullptr; ///< value of `instances`
  const char *inputs_at_ = nullptr;    ///< value of `inputs`
  bool decoded_ = false;               ///< tensors, or a fault in them, are there
  std::optional<Fault> tensor_fault_;
};

} // namespace

Result<PredictRequest> decode_predict(std::span<const std::byte> body,
                                      const SignatureSet &signatures, const DecodeOptions &options,
                                      TensorSink &sink) {
  if (takes_strings_only(signatures)) {
    // Such bodies are mostly base64, which is worth reading once only: hence the survey is left
    // out, and made good for where that was not right.
    RequestReader reader(body, &signatures, options, sink, std::nullopt);
    Result<PredictRequest> result = reader.run();
    if (reader.is_utf8())
      return result;
  }
  return RequestReader(body, &signatures, options, sink, survey_of(body, options.simd)).run();
}

Result<std::monostate> check_predict(std::span<const std::byte> body,
                                     const DecodeOptions &options) {
  NoSink sink;
  return RequestReader(body, nullptr, options, sink, survey_of(body, options.simd)).check();
}

// What TensorFiller asks for, summed: with one input, room for every element that the commas allow;
// with more, up to twice what they hold, and eight elements each to begin with. Strings: their
// bytes doubled while they grow, slack for unescaping, and the table.
std::uint64_t decoded_bytes_bound(std::span<const std::byte> body, const SignatureSet &signatures) {
  const std::uint64_t elements = survey_of(body, active_simd()).commas + 1;
  std::uint64_t bound = 0;
  for (const Signature &signature : signatures.all()) {
    const std::uint64_t inputs = signature.inputs().size();
    std::uint64_t item = 0;
    bool strings = false;
    for (const auto &[name, spec] : signature.inputs()) {
      item = std::max<std::uint64_t>(item, item_size(spec.dtype));
      strings = strings || spec.dtype == DType::kString;
    }
    std::uint64_t need = inputs == 1 ? elements * item : (2 * elements + 8 * inputs) * item;
    if (strings)
      need += 2 * body.size() + 8 * elements + inputs * (kUnescapeSlack + 24);
    bound = std::max(bound, need);
  }
  return bound;
}

} // namespace headrace
