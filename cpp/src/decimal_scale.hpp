// Powers of ten as sums of two doubles, for products that are exact to about 104 bits.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "powers_of_ten.hpp"

namespace headrace {

/// 10^k = high + low, give or take 2^-105 of it; `high` is the double nearest to 10^k.
struct DecimalScale {
  double high;
  double low;
};

inline constexpr int kMinDecimalScale = -96;
inline constexpr int kMaxDecimalScale = 80;

namespace detail {

constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

constexpr DecimalScale make_decimal_scale(int k) {
  const PowerOfTen g = power_of_ten(k);
  const int exponent = (k * 217'706) >> 16; // floor(log2(10^k))
  // The 53 bits that `high` takes, and the 75 others, which say whether it is the next one that is
  // nearer; of two as near, the even one.
  const bool up = (g.hi & 0x400) != 0 && ((g.hi & 0xBFF) != 0 || g.lo != 0);
  const std::uint64_t first = (g.hi >> 11) + (up ? 1 : 0);
  const double rest = static_cast<double>(g.hi & 0x7FF) - (up ? 2048.0 : 0.0);
  return {static_cast<double>(first) * power_of_two(exponent - 52),
          rest * power_of_two(exponent - 63) +
              static_cast<double>(g.lo) * power_of_two(exponent - 127)};
}

constexpr auto make_decimal_scales() {
  std::array<DecimalScale, kMaxDecimalScale - kMinDecimalScale + 1> scales{};
  for (int k = kMinDecimalScale; k <= kMaxDecimalScale; ++k)
    scales[static_cast<std::size_t>(k - kMinDecimalScale)] = make_decimal_scale(k);
  return scales;
}

} // namespace detail

inline constexpr auto kDecimalScales = detail::make_decimal_scales();

/// Precondition: kMinDecimalScale <= k <= kMaxDecimalScale.
constexpr const DecimalScale &decimal_scale(int k) noexcept {
  return kDecimalScales[static_cast<std::size_t>(k - kMinDecimalScale)];
}

static_assert(decimal_scale(0).high == 1 && decimal_scale(0).low == 0);
static_assert(decimal_scale(22).high == 1e22 && decimal_scale(22).low == 0);
static_assert(decimal_scale(23).high == 1e23 && decimal_scale(-7).high == 1e-7);
static_assert(decimal_scale(-23).high == 1e-23 && decimal_scale(-96).high == 1e-96);

} // namespace headrace
