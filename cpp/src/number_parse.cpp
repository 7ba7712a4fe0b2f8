#include "headrace/number_parse.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "number_convert.hpp"

namespace headrace {

namespace {

constexpr std::uint32_t kMaxDigits = 19; // every 19-digit integer fits 64 bits
// Exponents are cut here: far beyond any digit string that fits memory could compensate, and far
// from overflowing int64 when digits are counted on top.
constexpr std::int64_t kMaxExponent = std::int64_t{1} << 58;

bool is_digit(char c) noexcept { return static_cast<unsigned char>(c - '0') <= 9; }

void take_digit(Decimal &d, char c, bool fraction) noexcept {
  const auto value = static_cast<std::uint64_t>(c - '0');
  if (d.significant < kMaxDigits) {
    d.digits = d.digits * 10 + value;
    d.significant += d.digits != 0 ? 1U : 0U;
    d.exponent -= fraction ? 1 : 0;
  } else {
    d.truncated |= value != 0;
    d.exponent += fraction ? 0 : 1;
  }
}

const char *take_exponent(const char *p, const char *end, Decimal &d) noexcept {
  bool negative = false;
  if (p != end && (*p == '+' || *p == '-'))
    negative = *p++ == '-';
  std::int64_t value = 0;
  const char *const first = p;
  for (; p != end && is_digit(*p); ++p)
    value = std::min(value * 10 + (*p - '0'), kMaxExponent);
  d.exponent += negative ? -value : value;
  return p == first ? nullptr : p;
}

// `-0` is the integer zero, which has no sign; `-0.0` has one.
bool has_minus(const Decimal &d) noexcept { return d.negative && !(d.integer && d.digits == 0); }

bool is_too_big(const Decimal &d) noexcept {
  if (d.digits == 0)
    return false;
  const std::int64_t decade = d.exponent + d.significant; // the value is below 10^decade
  return decade > 309 || (decade == 309 && std::isinf(to_float64(d)));
}

template <class Float> Float exactly(const Decimal &d) noexcept {
  const std::string_view text = d.text.substr(d.negative ? 1 : 0);
  Float value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc::result_out_of_range)
    value = d.exponent + d.significant > 0 ? std::numeric_limits<Float>::infinity() : Float{0};
  return value;
}

double magnitude_float64(const Decimal &d) noexcept {
  double value = 0;
  if (d.digits == 0)
    return 0;
  if (!number::try_float64(d.digits, d.exponent, value))
    return exactly<double>(d);
  if (!d.truncated)
    return value;
  double above = 0; // the cut digits lie between these two
  if (number::try_float64(d.digits + 1, d.exponent, above) && above == value)
    return value;
  return exactly<double>(d);
}

// Walks the significant digits of a number's text, zeros before the first and the point left out.
class Digits {
public:
  explicit Digits(std::string_view text) noexcept : text_(text) {
    while (!text_.empty() && (text_.front() == '0' || text_.front() == '.' || text_.front() == '-'))
      text_.remove_prefix(1);
  }
  /// The next digit; zero for ever after the last.
  char next() noexcept {
    if (!text_.empty() && text_.front() == '.')
      text_.remove_prefix(1);
    if (text_.empty() || !is_digit(text_.front()))
      return '0';
    const char c = text_.front();
    text_.remove_prefix(1);
    return c;
  }
  bool done() const noexcept {
    return text_.empty() || (text_.front() != '.' && !is_digit(text_.front()));
  }

private:
  std::string_view text_;
};

// Sign of (magnitude of `d` - `middle`), exactly. `middle` has few significant bits.
int compare(const Decimal &d, double middle) noexcept {
  char buffer[256]; // 200 digits hold any middle between 16-bit floats without rounding
  const auto printed =
      std::to_chars(buffer, buffer + sizeof buffer, middle, std::chars_format::scientific, 200);
  const NumberScan scan = scan_number(buffer, printed.ptr);
  const std::int64_t decade = d.exponent + d.significant;
  const std::int64_t middle_decade = scan.decimal.exponent + scan.decimal.significant;
  if (decade != middle_decade)
    return decade < middle_decade ? -1 : 1;
  Digits ours(d.text);
  Digits theirs(scan.decimal.text);
  while (!ours.done() || !theirs.done()) {
    const char a = ours.next();
    const char b = theirs.next();
    if (a != b)
      return a < b ? -1 : 1;
  }
  return 0;
}

// Bits of the nearest 16-bit float with `kExponent` exponent bits. By way of float64, which can err
// only where that lies exactly in the middle between two results: there the text decides.
template <int kExponent> std::uint16_t to_16_bits(const Decimal &d) noexcept {
  constexpr int kMantissa = 15 - kExponent;
  constexpr int kMinExponent = 2 - (1 << (kExponent - 1));
  constexpr std::uint64_t kInfinity = ((std::uint64_t{1} << kExponent) - 1) << kMantissa;
  const auto sign = static_cast<std::uint16_t>(has_minus(d) ? 0x8000 : 0);
  const double value = magnitude_float64(d);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  if (exponent < kMinExponent - kMantissa - 1)
    return sign; // below half of the smallest subnormal
  const std::uint64_t mantissa = (bits & ((std::uint64_t{1} << 52) - 1)) | (std::uint64_t{1} << 52);
  const int shift = 52 - kMantissa + std::max(0, kMinExponent - exponent);
  std::uint64_t result = mantissa >> shift;
  const std::uint64_t rest = mantissa & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t middle = std::uint64_t{1} << (shift - 1);
  int side = rest < middle ? -1 : 1;
  if (rest == middle)
    side = compare(d, value);
  if (side > 0 || (side == 0 && (result & 1) != 0))
    ++result;
  if (exponent > kMinExponent)
    result += static_cast<std::uint64_t>(exponent - kMinExponent) << kMantissa;
  return static_cast<std::uint16_t>(sign | std::min(result, kInfinity));
}

// The value of a number without a fractional part, however it is spelt.
std::optional<std::uint64_t> whole(const Decimal &d) noexcept {
  const std::int64_t places = d.exponent + d.significant; // digits before the point
  if (places < 1 || places > 20)
    return std::nullopt;
  Digits digits(d.text);
  std::uint64_t value = 0;
  for (std::int64_t i = 0; i < places; ++i)
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<std::uint64_t>(digits.next() - '0'), &value))
      return std::nullopt;
  while (!digits.done())
    if (digits.next() != '0')
      return std::nullopt;
  return value;
}

} // namespace

NumberScan scan_number(const char *text, const char *end) noexcept {
  NumberScan scan;
  Decimal &d = scan.decimal;
  const char *p = text;
  const auto fail = [&](NumberFault fault, const char *at) {
    scan.fault = fault;
    scan.next = at;
    return scan;
  };
  if (p != end && *p == '-') {
    d.negative = true;
    ++p;
  }
  if (p == end || !is_digit(*p))
    return fail(NumberFault::kInvalid, p);
  if (*p == '0')
    ++p;
  else
    for (; p != end && is_digit(*p); ++p)
      take_digit(d, *p, false);
  if (p != end && *p == '.') {
    d.integer = false;
    if (++p == end || !is_digit(*p))
      return fail(NumberFault::kMissFraction, p);
    for (; p != end && is_digit(*p); ++p)
      take_digit(d, *p, true);
  }
  if (p != end && (*p == 'e' || *p == 'E')) {
    d.integer = false;
    const char *const at = p + 1;
    p = take_exponent(at, end, d);
    if (p == nullptr)
      return fail(NumberFault::kMissExponent,
                  at != end && (*at == '+' || *at == '-') ? at + 1 : at);
  }
  d.text = {text, static_cast<std::size_t>(p - text)};
  if (is_too_big(d))
    return fail(NumberFault::kTooBig, text);
  scan.next = p;
  return scan;
}

double to_float64(const Decimal &d) noexcept {
  const double magnitude = magnitude_float64(d);
  return has_minus(d) ? -magnitude : magnitude;
}

float to_float32(const Decimal &d) noexcept {
  float magnitude = 0;
  if (d.digits == 0)
    magnitude = 0;
  else if (d.exponent == 0 && !d.truncated)
    magnitude = static_cast<float>(d.digits); // integers are rounded once by the processor
  else if (!number::try_float32(d.digits, d.exponent, magnitude))
    magnitude = exactly<float>(d);
  return has_minus(d) ? -magnitude : magnitude;
}

std::uint16_t to_float16(const Decimal &d) noexcept { return to_16_bits<5>(d); }

std::uint16_t to_bfloat16(const Decimal &d) noexcept { return to_16_bits<8>(d); }

std::optional<Integer> to_integer(const Decimal &d, bool allow_fraction_syntax) noexcept {
  if (!d.integer && !allow_fraction_syntax)
    return std::nullopt;
  if (d.digits == 0)
    return Integer{0, false};
  const std::optional<std::uint64_t> magnitude = whole(d);
  if (!magnitude || (d.negative && *magnitude > std::uint64_t{1} << 63))
    return std::nullopt;
  return Integer{*magnitude, d.negative};
}

} // namespace headrace
