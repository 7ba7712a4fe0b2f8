// JSON numbers: their grammar, and their values correctly rounded to any dtype.
// Spec: RFC 8259 §6; TensorFlow Serving REST, lexical rules (`NaN`, `Infinity`, `Inf` are tokens of
// their own, taken by the caller).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace headrace {

/// A number taken apart: its magnitude is `digits` × 10^`exponent`, exactly, unless `truncated`.
struct Decimal {
  std::string_view text;         ///< the token, sign included
  std::uint64_t digits = 0;      ///< the first 19 significant digits; 0 for every zero
  std::int64_t exponent = 0;     ///< power of ten, saturated far outside of float64's range
  std::uint32_t significant = 0; ///< how many digits `digits` holds
  bool negative = false;
  bool integer = true;    ///< spelt without fraction and exponent
  bool truncated = false; ///< non-zero digits follow the 19th
};

enum class NumberFault : std::uint8_t {
  kNone,
  kInvalid,      ///< no digit where the number should begin
  kMissFraction, ///< no digit after the point
  kMissExponent, ///< no digit after `e`
  kTooBig,       ///< beyond float64's range
};

struct NumberScan {
  NumberFault fault = NumberFault::kNone;
  const char *next = nullptr; ///< first byte after the number; with a fault, the byte to blame
  Decimal decimal;
};

/// Reads the number at `text`. Never reads at or behind `end`. A zero before further digits ends
/// the number, as in any JSON grammar: the caller finds no delimiter there.
NumberScan scan_number(const char *text, const char *end) noexcept;

/// Nearest float64, ties to even. Infinite beyond its range, zero (signed) below it. Here and below
/// `-0` is +0, being an integer, and `-0.0` is -0.
double to_float64(const Decimal &decimal) noexcept;
/// Nearest float32, rounded once, from the decimal text and not by way of float64.
float to_float32(const Decimal &decimal) noexcept;
/// Bits of the nearest IEEE half.
std::uint16_t to_float16(const Decimal &decimal) noexcept;
/// Bits of the nearest bfloat16.
std::uint16_t to_bfloat16(const Decimal &decimal) noexcept;

/// The value as an integer, or nothing if it lies outside [-2^63, 2^64) or has a fraction.
struct Integer {
  std::uint64_t magnitude = 0;
  bool negative = false;
};
/// `allow_fraction_syntax`: spellings such as `3.0` and `1e3` count as integers too.
std::optional<Integer> to_integer(const Decimal &decimal, bool allow_fraction_syntax) noexcept;

} // namespace headrace
