// Readers of one element each, in plain C++: what the portable kernels are made of, and what those
// for particular processors fall back on.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "headrace/number_parse.hpp"
#include "json_text.hpp"
#include "number_convert.hpp"
#include "number_kernels.hpp"

namespace headrace::scalar {

// Away from the end by this much, the quick readers below need no check of `end`: no element that
// they take is longer (19 digits, sign, point, exponent of 4 digits with sign; whole words).
inline constexpr std::ptrdiff_t kQuickText = 64;

inline std::uint64_t load8(const char *p) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, p, 8);
  if constexpr (std::endian::native == std::endian::big)
    word = __builtin_bswap64(word);
  return word;
}

// How many of the word's bytes, from the first on, are digits; 8 if all are.
inline unsigned count_digits(std::uint64_t word) noexcept {
  const std::uint64_t x = word ^ 0x3030303030303030;
  const std::uint64_t other =
      (((x & 0x7F7F7F7F7F7F7F7F) + 0x7676767676767676) | x) & 0x8080808080808080;
  return static_cast<unsigned>(std::countr_zero(other)) / 8;
}

// Value of the first `count` (1 to 8) bytes of `word`, which are digits.
inline std::uint64_t value_of_digits(std::uint64_t word, unsigned count) noexcept {
  word = (word ^ 0x3030303030303030) << (64 - 8 * count);
  word = (word * 10) + (word >> 8);
  return (((word & 0x000000FF000000FF) * 0x000F424000000064) +
          (((word >> 16) & 0x000000FF000000FF) * 0x0000271000000001)) >>
         32;
}

inline constexpr std::array<std::uint64_t, 9> kTens = {1,      10,      100,      1000,     10000,
                                                       100000, 1000000, 10000000, 100000000};

inline bool is_digit(char c) noexcept { return static_cast<unsigned char>(c - '0') <= 9; }

// Up to 16 digits at `p`, appended to `value`; yields how many. 16: there may be more.
[[gnu::always_inline]] inline unsigned take_digits(const char *p, std::uint64_t &value) noexcept {
  std::uint64_t word = load8(p);
  unsigned count = count_digits(word);
  if (count == 0)
    return 0;
  value = value * kTens[count] + value_of_digits(word, count);
  if (count < 8)
    return count;
  word = load8(p + 8);
  count = count_digits(word);
  if (count == 0)
    return 8;
  value = value * kTens[count] + value_of_digits(word, count);
  return 8 + count;
}

struct QuickDecimal {
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
};

// A number of at most 19 digits after its leading zero, exactly; nullptr for what is longer, is
// not a number, or would overflow float64. Precondition: kQuickText readable bytes.
[[gnu::always_inline]] inline const char *read_quickly(const char *p, QuickDecimal &d) noexcept {
  unsigned whole = 1;
  if (is_digit(p[0]) && p[1] == '.') { // the most common form by far
    d.digits = static_cast<std::uint64_t>(p[0] - '0');
  } else {
    whole = take_digits(p, d.digits);
    if (whole == 0 || (p[0] == '0' && whole > 1))
      return nullptr;
  }
  p += whole;
  if (d.digits == 0)
    whole = 0;
  if (*p == '.') {
    const char *const point = ++p;
    p += take_digits(p, d.digits);
    while (is_digit(*p) && p - point < 20)
      d.digits = d.digits * 10 + static_cast<std::uint64_t>(*p++ - '0');
    const auto fraction = p - point;
    if (fraction == 0 || fraction + whole > 19)
      return nullptr;
    d.exponent = -fraction;
  } else if (is_digit(*p)) {
    return nullptr; // more than 16 digits before any point
  }
  if ((*p | 0x20) == 'e') {
    ++p;
    const bool negative = *p == '-';
    p += negative || *p == '+' ? 1 : 0;
    std::uint64_t exponent = 0;
    const unsigned count = take_digits(p, exponent);
    if (count == 0 || count == 16 ||
        exponent > 280) // longer ones, and the limits of float64, go the exact way
      return nullptr;
    p += count;
    d.exponent +=
        negative ? -static_cast<std::int64_t>(exponent) : static_cast<std::int64_t>(exponent);
  }
  return p;
}

// Each reader yields the byte after the element with `out` set, or nullptr for "not mine".

template <class Float> const char *read_float(const char *p, const char *end, Float &out) noexcept {
  const bool negative = *p == '-';
  const char *next = nullptr;
  if (end - p > kQuickText) {
    QuickDecimal d;
    next = read_quickly(p + (negative ? 1 : 0), d);
    bool certain = next != nullptr && !(negative && d.digits == 0); // -0: by its spelling
    Float magnitude = 0;
    if (certain && d.exponent == 0)
      magnitude = static_cast<Float>(d.digits);
    else if (certain && d.digits != 0) {
      if constexpr (std::is_same_v<Float, float>)
        certain = number::try_float32(d.digits, d.exponent, magnitude);
      else
        certain = number::try_float64(d.digits, d.exponent, magnitude);
    }
    if (certain && magnitude <= std::numeric_limits<Float>::max()) {
      out = negative ? -magnitude : magnitude;
      return next;
    }
  }
  const NumberScan scan = scan_number(p, end);
  if (scan.fault != NumberFault::kNone)
    return nullptr;
  if constexpr (std::is_same_v<Float, float>)
    out = to_float32(scan.decimal);
  else
    out = to_float64(scan.decimal);
  const bool overflow =
      out > std::numeric_limits<Float>::max() || out < std::numeric_limits<Float>::lowest();
  return overflow ? nullptr : scan.next;
}

// Halves and bfloat16: by way of scan_number alone, whatever the place.
template <std::uint16_t (*kRound)(const Decimal &) noexcept, std::uint16_t kInfinity>
const char *read_16_bits(const char *p, const char *end, std::uint16_t &out) noexcept {
  const NumberScan scan = scan_number(p, end);
  if (scan.fault != NumberFault::kNone)
    return nullptr;
  out = kRound(scan.decimal);
  return (out & 0x7FFF) == kInfinity ? nullptr : scan.next;
}

// Integers of up to 8 digits, or up to the type's limits; `.` and exponents end them, which the
// caller then finds where a delimiter should be.
template <class Int> const char *read_integer(const char *p, const char *end, Int &out) noexcept {
  const bool negative = *p == '-';
  if (negative && std::is_unsigned_v<Int>)
    return nullptr;
  const char *const first = p + (negative ? 1 : 0);
  std::uint64_t magnitude = 0;
  const char *next = first;
  if (end - p > kQuickText) {
    const std::uint64_t word = load8(first);
    const unsigned count = count_digits(word);
    if (count == 0)
      return nullptr;
    magnitude = value_of_digits(word, count);
    next = first + count;
    if (count == 8 && is_digit(*next)) {
      next += take_digits(next, magnitude);
      if (is_digit(*next) || next - first > 19)
        return nullptr;
    }
  } else {
    for (; next != end && is_digit(*next); ++next) {
      if (next - first == 19)
        return nullptr;
      magnitude = magnitude * 10 + static_cast<std::uint64_t>(*next - '0');
    }
    if (next == first)
      return nullptr;
  }
  if (*first == '0' && next - first > 1)
    return nullptr;
  const char after = peek(next, end);
  if (after == '.' || (after | 0x20) == 'e')
    return nullptr;
  using Unsigned = std::make_unsigned_t<Int>;
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<Int>::max());
  if (magnitude > kMax + (negative ? 1 : 0))
    return nullptr;
  const auto value = static_cast<Unsigned>(magnitude);
  out = static_cast<Int>(negative ? static_cast<Unsigned>(Unsigned{0} - value) : value);
  return next;
}

inline const char *read_bool(const char *p, const char *end, std::uint8_t &out) noexcept {
  if (end - p >= 4 && std::memcmp(p, "true", 4) == 0) {
    out = 1;
    return p + 4;
  }
  if (end - p >= 5 && std::memcmp(p, "false", 5) == 0) {
    out = 0;
    return p + 5;
  }
  return nullptr;
}

template <class Element, const char *(*kRead)(const char *, const char *, Element &) noexcept>
RunStop read_run(NumberRun &run) noexcept {
  const char *p = run.text;
  const char *const end = run.end;
  std::byte *out = run.out;
  RunStop stop = RunStop::kElement;
  for (;;) {
    if (p != end && is_blank(*p))
      p = skip_blanks(p + 1, end);
    if (p == end)
      break;
    if (out == run.out_end) {
      stop = RunStop::kFull;
      break;
    }
    Element element;
    const char *next = kRead(p, end, element);
    if (next == nullptr)
      break;
    std::memcpy(out, &element, sizeof element);
    out += sizeof element;
    p = next;
    if (p != end && is_blank(*p))
      p = skip_blanks(p + 1, end);
    const char delimiter = peek(p, end);
    if (delimiter == ',') {
      ++p;
      continue;
    }
    stop = delimiter == ']' ? RunStop::kClosed : RunStop::kDelimiter;
    p += delimiter == ']' ? 1 : 0;
    break;
  }
  run.text = p;
  run.out = out;
  return stop;
}

} // namespace headrace::scalar
