#include "tensor_filler.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>

#include "headrace/base64.hpp"
#include "json_place.hpp"

namespace headrace {

namespace {

struct Range {
  std::int64_t min = 0;
  std::uint64_t max = 0;
};

template <class Int> constexpr Range range() {
  return {static_cast<std::int64_t>(std::numeric_limits<Int>::min()),
          static_cast<std::uint64_t>(std::numeric_limits<Int>::max())};
}

// Nothing for dtypes that are not integers.
std::optional<Range> range_of(DType dtype) noexcept {
  switch (dtype) {
  case DType::kInt8:
    return range<std::int8_t>();
  case DType::kInt16:
    return range<std::int16_t>();
  case DType::kInt32:
    return range<std::int32_t>();
  case DType::kInt64:
    return range<std::int64_t>();
  case DType::kUint8:
    return range<std::uint8_t>();
  case DType::kUint16:
    return range<std::uint16_t>();
  case DType::kUint32:
    return range<std::uint32_t>();
  case DType::kUint64:
    return range<std::uint64_t>();
  default:
    return std::nullopt;
  }
}

bool is_float(DType dtype) noexcept {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

bool fits(const Integer &value, const Range &range) noexcept {
  if (!value.negative)
    return value.magnitude <= range.max;
  // -(min + 1) + 1 is the magnitude of `min` without overflow.
  return value.magnitude == 0 ||
         (range.min < 0 && value.magnitude <= static_cast<std::uint64_t>(-(range.min + 1)) + 1);
}

std::string message_name(const TensorSpec &spec) {
  if (spec.dtype != DType::kUnsupported)
    return std::string(tensorflow_name(spec.dtype));
  std::string name = spec.dtype_name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name.starts_with("dt_") ? name.substr(3) : name;
}

std::uint64_t align8(std::uint64_t n) noexcept { return (n + 7) & ~std::uint64_t{7}; }

} // namespace

std::string expected_of(const TensorSpec &spec) {
  const std::string dtype = message_name(spec);
  if (const auto range = range_of(spec.dtype); range)
    return dtype + ", an integer from " + std::to_string(range->min) + " to " +
           std::to_string(range->max);
  switch (spec.dtype) {
  case DType::kBool:
    return "bool, true or false";
  case DType::kString:
    return "string, a JSON string or {\"b64\": \"...\"}";
  case DType::kUnsupported:
    return dtype + ", which has no JSON form";
  default:
    return dtype + ", a number";
  }
}

TensorFiller::TensorFiller(DecodeScope &scope, const Signature &signature, std::size_t index,
                           bool alone)
    : scope_(scope), name_(signature.inputs()[index].first),
      spec_(signature.inputs()[index].second), index_(index), alone_(alone),
      item_size_(item_size(spec_.dtype)), kernel_(number_kernel(spec_.dtype, scope.options.simd)) {}

const char *TensorFiller::no_room(const char *at) {
  return scope_.faults.set(ErrorCode::kTooLarge, at,
                           "Input '" + name_ + "' needs more memory than a request may take");
}

// Grows so that `bytes` more fit. What is asked for never exceeds decoded_bytes_bound.
bool TensorFiller::make_room(std::uint64_t bytes) {
  if (room_.size() - used_ >= bytes)
    return true;
  std::uint64_t want = std::max(used_ + bytes, 2 * used_);
  if (item_size_ != 0) {
    const std::uint64_t bound = (scope_.commas + 1) * item_size_;
    want = alone_ ? bound : std::min(bound, std::max<std::uint64_t>(want, 8 * item_size_));
  }
  const std::span<std::byte> room = scope_.sink.grow(index_, used_, want);
  if (room.empty())
    return false;
  room_ = room;
  return true;
}

bool TensorFiller::expect(std::uint64_t count, const char *at) {
  const std::uint64_t want = count * item_size_;
  if (want <= room_.size())
    return true;
  room_ = scope_.sink.grow(index_, used_, want);
  return !room_.empty() || no_room(at) != nullptr;
}

void TensorFiller::rewind(std::uint64_t count) noexcept {
  count_ = count;
  used_ = count * item_size_;
  if (is_string()) {
    ends_.resize(count);
    used_ = count == 0 ? 0 : ends_.back();
  }
}

bool TensorFiller::finish(const Shape &shape, const char *at) {
  if (is_string()) {
    const std::uint64_t table = align8(used_);
    const std::uint64_t bytes = table + 8 * (count_ + 1);
    if (bytes > room_.size())
      room_ = scope_.sink.grow(index_, used_, bytes);
    if (room_.empty())
      return no_room(at) != nullptr;
    std::memset(room_.data() + used_, 0, table - used_ + 8);
    if (count_ != 0)
      std::memcpy(room_.data() + table + 8, ends_.data(), 8 * count_);
    used_ = bytes;
  }
  scope_.sink.finish(index_, spec_.dtype, shape, used_);
  return true;
}

TensorFiller::ListRun TensorFiller::take_list(const char *p, std::uint64_t limit) {
  const char *const end = scope_.text.end;
  const std::uint64_t first = count_;
  for (;;) {
    if (kernel_.run != nullptr) {
      const std::uint64_t room =
          std::min<std::uint64_t>((room_.size() - used_) / item_size_, limit - (count_ - first));
      std::byte *const out = room_.data() + used_;
      NumberRun run{p,   scope_.text.begin,       end,
                    out, out + room * item_size_, room_.data() + room_.size()};
      const RunStop stop = kernel_.run(run);
      const auto bytes = static_cast<std::uint64_t>(run.out - out);
      used_ += bytes;
      count_ += bytes / item_size_;
      p = run.text;
      if (stop == RunStop::kClosed)
        return {p, true};
      if (stop == RunStop::kDelimiter)
        return {scope_.faults.syntax.set(SyntaxFault::kMissCommaOrBracket, p), false};
      if (stop == RunStop::kFull && count_ - first < limit) {
        if (!make_room(item_size_))
          return {no_room(p), false};
        continue;
      }
    }
    p = skip_blanks(p, end);
    if (count_ - first == limit || peek(p, end) == '[')
      return {p, false};
    p = take_leaf(p);
    bool closed = false;
    if (p != nullptr)
      p = scan_delimiter(p, end, false, closed, scope_.faults.syntax);
    if (p == nullptr || closed)
      return {p, closed};
  }
}

std::uint64_t TensorFiller::take_rows(const char *&p, std::uint64_t length, std::uint64_t limit) {
  // Where rows are laid out so that the kernel takes none, it is not asked about each.
  constexpr std::uint32_t kPatience = 4;
  constexpr std::uint32_t kAskAgain = 64;
  if (kernel_.rows == nullptr || length == 0 ||
      (row_misses_ >= kPatience && ++row_misses_ % kAskAgain != 0))
    return 0;
  const std::uint64_t row_bytes = length * item_size_;
  if (room_.size() - used_ < row_bytes && !make_room(row_bytes))
    return 0; // take_list will meet the same, and say so
  const std::uint64_t room = std::min((room_.size() - used_) / row_bytes, limit);
  std::byte *const out = room_.data() + used_;
  NumberRun run{p,   scope_.text.begin,      scope_.text.end,
                out, out + room * row_bytes, room_.data() + room_.size()};
  const std::uint64_t rows = kernel_.rows(run, length);
  row_misses_ = rows == 0 ? row_misses_ + 1 : 0;
  used_ += rows * row_bytes;
  count_ += rows * length;
  p = run.text;
  return rows;
}

const char *TensorFiller::take_leaf(const char *p) {
  const char *const end = scope_.text.end;
  const char c = peek(p, end);
  if (c == '"')
    return take_string(p);
  if (c == '{')
    return take_object(p);
  if (c == 't' || c == 'f' || c == 'n' || begins_non_finite(p, end))
    return take_literal(p);
  return take_number(p);
}

template <class T> void TensorFiller::put(T value) noexcept {
  std::memcpy(room_.data() + used_, &value, sizeof value);
  used_ += sizeof value;
  ++count_;
}

const char *TensorFiller::take_number(const char *p) {
  if (kernel_.one != nullptr && p != scope_.text.end) {
    if (!make_room(item_size_))
      return no_room(p);
    if (const char *const next = kernel_.one(p, scope_.text.end, room_.data() + used_)) {
      used_ += item_size_;
      ++count_;
      return next;
    }
  }
  Decimal decimal;
  const char *const next = scan_number_token(p, scope_.text.end, decimal, scope_.faults.syntax);
  if (next == nullptr)
    return nullptr;
  if (spec_.dtype == DType::kUnsupported || is_string() || spec_.dtype == DType::kBool)
    return refuse(p, "Number");
  return put_number(decimal) ? next : refuse_number(p, decimal);
}

bool TensorFiller::put_number(const Decimal &decimal) {
  if (is_float(spec_.dtype))
    return put_float(0, &decimal);
  const auto value = to_integer(decimal, scope_.options.integral_floats);
  if (!value || !fits(*value, *range_of(spec_.dtype)))
    return false;
  const std::uint64_t bits = value->negative ? ~value->magnitude + 1 : value->magnitude;
  switch (item_size_) {
  case 1:
    put(static_cast<std::uint8_t>(bits));
    break;
  case 2:
    put(static_cast<std::uint16_t>(bits));
    break;
  case 4:
    put(static_cast<std::uint32_t>(bits));
    break;
  default:
    put(bits);
  }
  return true;
}

// A float from its text, or, without text, one of the non-finite values. False: not finite, and
// only finite values are allowed.
bool TensorFiller::put_float(double value, const Decimal *decimal) {
  const bool finite_only = scope_.options.finite_only;
  switch (spec_.dtype) {
  case DType::kFloat32: {
    const float narrow = decimal != nullptr ? to_float32(*decimal) : static_cast<float>(value);
    if (finite_only && !std::isfinite(narrow))
      return false;
    put(narrow);
    return true;
  }
  case DType::kFloat64: {
    const double wide = decimal != nullptr ? to_float64(*decimal) : value;
    if (finite_only && !std::isfinite(wide))
      return false;
    put(wide);
    return true;
  }
  default:
    break;
  }
  const bool half = spec_.dtype == DType::kFloat16;
  const std::uint16_t infinity = half ? 0x7C00 : 0x7F80;
  std::uint16_t bits = 0;
  if (decimal != nullptr)
    bits = half ? to_float16(*decimal) : to_bfloat16(*decimal);
  else
    bits = std::isnan(value) ? (half ? 0x7E00 : 0x7FC0) : infinity;
  if (decimal == nullptr && value < 0)
    bits |= 0x8000;
  if (finite_only && (bits & infinity) == infinity)
    return false;
  put(bits);
  return true;
}

const char *TensorFiller::take_literal(const char *p) {
  Literal literal{};
  const char *const next = scan_literal(p, scope_.text.end, literal, scope_.faults.syntax);
  if (next == nullptr)
    return nullptr;
  const bool boolean = literal == Literal::kTrue || literal == Literal::kFalse;
  if (literal == Literal::kNull || boolean) {
    if (!boolean || spec_.dtype != DType::kBool)
      return refuse(p, literal == Literal::kNull   ? "Null"
                       : literal == Literal::kTrue ? "True"
                                                   : "False");
    if (!make_room(1))
      return no_room(p);
    put(static_cast<std::uint8_t>(literal == Literal::kTrue));
    return next;
  }
  if (!is_float(spec_.dtype))
    return refuse(p, "Number");
  if (!make_room(item_size_))
    return no_room(p);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double value = literal == Literal::kNan        ? std::numeric_limits<double>::quiet_NaN()
                       : literal == Literal::kInfinity ? kInfinity
                                                       : -kInfinity;
  return put_float(value, nullptr) ? next : refuse_number(p, {});
}

// The string's bytes stand behind those before it.
void TensorFiller::add_string(std::uint64_t bytes) {
  used_ += bytes;
  ends_.push_back(used_);
  ++count_;
}

const char *TensorFiller::take_string(const char *p) {
  StringToken token;
  const char *const next = scan_string(p, scope_.text.end, token, scope_.faults.syntax);
  if (next == nullptr)
    return nullptr;
  if (!is_string())
    return refuse(p, "String");
  if (!make_room(token.raw().size() + (token.escaped ? kUnescapeSlack : 0)))
    return no_room(p);
  add_string(unescape(token, scope_.text.end, room_.data() + used_));
  return next;
}

const char *TensorFiller::take_object(const char *p) {
  if (is_string()) {
    if (const char *const next = take_plain_base64(p); next != nullptr)
      return next;
    StringToken token;
    if (const char *const next = scan_b64_object(p, scope_.text.end, token); next != nullptr)
      return take_base64(p, next, token);
    return scope_.faults.set(ErrorCode::kType, p,
                             "JSON Value: " + excerpt_of_value(scope_.text, p) +
                                 " not formatted correctly for base64 data",
                             "input '" + name_ + "' takes " + expected_of(spec_) +
                                 "; an object needs exactly the member \"b64\" with a string");
  }
  return refuse(p, "Object");
}

// Decodes a text while its end is still to be found, so that it is read once. Yields nullptr and
// leaves everything as it was where that does not serve: no b64 object, escapes, or a fault.
const char *TensorFiller::take_plain_base64(const char *p) {
  // The text may be as long as the rest of the body. With one input that much is asked for once,
  // instead of some for each string; with several it would add up to more than was announced.
  if (!alone_)
    return nullptr;
  const char *const end = scope_.text.end;
  const char *const first = begin_b64_object(p, end);
  if (first == nullptr || !make_room(base64_bound(between(first, end).size())))
    return nullptr;
  const auto out = room_.subspan(used_);
  const Base64Start start = decode_base64_start(between(first, end), out, scope_.options.simd);
  StringToken rest;
  const char *const next = end_b64_object(first + start.characters, end, rest);
  if (next == nullptr || rest.escaped)
    return nullptr;
  Base64Result result;
  if (!rest.raw().empty())
    result = decode_base64(rest.raw(), out.subspan(start.bytes), scope_.options.simd);
  if (!result)
    return nullptr;
  scope_.utf8.pass_over(first, rest.begin);
  add_string(start.bytes + result.bytes);
  return next;
}

// `p` and `next`: where the object that holds `token` begins and ends.
const char *TensorFiller::take_base64(const char *p, const char *next, const StringToken &token) {
  std::string plain;
  std::string_view characters = token.raw();
  if (token.escaped)
    characters = plain = unescape(token, scope_.text.end);
  if (!make_room(base64_bound(characters.size())))
    return no_room(p);
  const Base64Result result = decode_base64(characters, room_.subspan(used_), scope_.options.simd);
  if (!result)
    return refuse_base64(token, result.bad, p, "input '" + name_ + "'", scope_.faults);
  add_string(result.bytes);
  return next;
}

const char *TensorFiller::refuse(const char *p, const char *json_type) {
  const std::string value = excerpt_of_value(scope_.text, p);
  const std::string hint = "input '" + name_ + "' takes " + expected_of(spec_);
  if (spec_.dtype == DType::kUnsupported && *p != '{')
    return scope_.faults.set(
        ErrorCode::kUnsupportedDtype, p,
        "Conversion of JSON Value: " + value + " to type: " + message_name(spec_), hint);
  return scope_.faults.set(ErrorCode::kType, p,
                           "JSON Value: " + value + " Type: " + json_type +
                               " is not of expected type: " + message_name(spec_),
                           hint);
}

const char *TensorFiller::refuse_number(const char *p, const Decimal &decimal) {
  if (is_float(spec_.dtype))
    return scope_.faults.set(ErrorCode::kNonFinite, p,
                             "JSON Value: " + excerpt_of_value(scope_.text, p) +
                                 " is not a finite " + message_name(spec_),
                             "input '" + name_ + "' takes finite numbers only");
  refuse(p, "Number");
  if (decimal.integer)
    scope_.faults.semantic->code = ErrorCode::kRange;
  return nullptr;
}

} // namespace headrace
