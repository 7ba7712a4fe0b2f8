// The inline part of number conversion: what nearly every number takes. What it declines (nullopt,
// false) goes to the exact functions of number_parse.hpp.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include <simdjson.h>

#include "float64_powers.hpp"

namespace headrace::number {

inline constexpr std::uint64_t kMaxExactFloat64 = std::uint64_t{1} << 53;

/// digits × 10^exponent as float32, if that is certain. Precondition: digits != 0.
///
/// The product below is off by less than 4 units of float64's last place: half a unit each for
/// digits, the power and the product, and far less for digits cut after the 19th. Unless it lies
/// that near to the middle between two floats, rounding it gives what rounding the text would
/// (the sandwich of lower and upper bound closes on one float). Subnormal results are declined;
/// overflow needs no care, since the limit of rounding to infinity is such a middle as well.
inline bool try_float32(std::uint64_t digits, std::int64_t exponent, float &out) noexcept {
  if (exponent < kMinFloat64Power || exponent > kMaxFloat64Power)
    return false;
  const double product = static_cast<double>(digits) * kFloat64Powers[exponent - kMinFloat64Power];
  constexpr std::uint64_t kBelow = (std::uint64_t{1} << 29) - 1; // what a float32 cannot hold
  constexpr std::uint64_t kMiddle = std::uint64_t{1} << 28;
  constexpr std::uint64_t kUnsure = 8;
  const std::uint64_t rest = std::bit_cast<std::uint64_t>(product) & kBelow;
  out = static_cast<float>(product);
  return rest - (kMiddle - kUnsure) > 2 * kUnsure && product >= 0x1.000001p-126;
}

/// digits × 10^exponent as float64, if one multiplication or division of exact operands gives it.
inline bool try_float64_exact(std::uint64_t digits, std::int64_t exponent, double &out) noexcept {
  if (digits > kMaxExactFloat64 || exponent < -22 || exponent > 22)
    return false;
  const double value = static_cast<double>(digits);
  out = exponent < 0 ? value / kFloat64Powers[-exponent - kMinFloat64Power]
                     : value * kFloat64Powers[exponent - kMinFloat64Power];
  return true;
}

/// Eisel and Lemire's algorithm ("Number parsing at a gigabyte per second", 2021): digits ×
/// 10^exponent as float64 by one or two 64×64-bit products with a table of powers of five, which
/// is simdjson's. `digits` must be exact. Precondition: digits != 0. Declines what it cannot prove.
inline bool try_float64(std::uint64_t digits, std::int64_t exponent, double &out) noexcept {
  if (try_float64_exact(digits, exponent, out))
    return true;
  if (exponent < -342 || exponent > 308)
    return false;
  const int leading = std::countl_zero(digits);
  const std::uint64_t w = digits << leading;
  const std::uint64_t *power = &simdjson::internal::power_of_five_128[2 * (exponent + 342)];
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(w) * power[0];
  constexpr std::uint64_t kPrecisionMask = 0x1FF; // bits behind the 55 that decide
  if ((static_cast<std::uint64_t>(product >> 64) & kPrecisionMask) == kPrecisionMask)
    product += (static_cast<Wide>(w) * power[1]) >> 64;
  const auto high = static_cast<std::uint64_t>(product >> 64);
  const auto low = static_cast<std::uint64_t>(product);
  if (low == ~std::uint64_t{0} && (exponent < -27 || exponent > 55))
    return false; // the table's own rounding could carry
  const int upper = static_cast<int>(high >> 63);
  const int shift = upper + 9;
  std::uint64_t mantissa = high >> shift;
  const std::int64_t binary =
      (((152170 + 65536) * exponent) >> 16) + 1024 + 63 + upper - leading - 1;
  if (binary <= 0)
    return false; // subnormal: rare, and exact elsewhere
  if (low <= 1 && exponent >= -4 && exponent <= 23 && (mantissa & 3) == 1 &&
      (mantissa << shift) == high)
    mantissa &= ~std::uint64_t{1}; // exactly in the middle: to even
  mantissa = (mantissa + (mantissa & 1)) >> 1;
  std::uint64_t biased = static_cast<std::uint64_t>(binary);
  if (mantissa >= (std::uint64_t{2} << 52)) {
    mantissa = std::uint64_t{1} << 52;
    ++biased;
  }
  if (biased >= 0x7FF)
    return false;
  mantissa &= ~(std::uint64_t{1} << 52);
  out = std::bit_cast<double>(mantissa | (biased << 52));
  return true;
}

} // namespace headrace::number
