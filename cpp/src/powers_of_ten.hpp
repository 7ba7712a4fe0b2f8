// Powers of ten as normalised binary fractions, worked out by the compiler with exact integer
// arithmetic.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace headrace {

/// A power of ten: 10^k = g * 2^(floor(log2(10^k)) - 127), rounded up in the last place where it is
/// not exact, with g = hi * 2^64 + lo and the top bit of hi set.
struct PowerOfTen {
  std::uint64_t hi;
  std::uint64_t lo;
};

/// What binary64 needs to find its shortest decimals.
inline constexpr int kMinPowerOfTen = -292;
inline constexpr int kMaxPowerOfTen = 324;

namespace detail {

/// A natural number of 1,184 bits: 10^324 and 2^1152 fit.
class WideNumber {
public:
  static constexpr std::size_t kLimbs = 37;
  static constexpr WideNumber power_of_two(std::size_t exponent) {
    WideNumber n;
    n.limbs_[exponent / 32] = std::uint32_t{1} << (exponent % 32);
    return n;
  }

  constexpr void multiply_by_10() {
    std::uint64_t carry = 0;
    for (std::uint32_t &limb : limbs_) {
      carry += std::uint64_t{limb} * 10;
      limb = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }
  constexpr void divide_by_10() {
    std::uint64_t rest = 0;
    for (std::size_t i = kLimbs; i-- > 0;) {
      rest = (rest << 32) | limbs_[i];
      limbs_[i] = static_cast<std::uint32_t>(rest / 10);
      rest %= 10;
    }
  }
  /// The 128 most significant bits, from the leading one on, and whether nothing but zeros follows
  /// them.
  constexpr PowerOfTen leading_bits(bool &exact) const {
    std::size_t top = kLimbs - 1;
    while (limbs_[top] == 0)
      --top;
    const auto shift = static_cast<unsigned>(std::countl_zero(limbs_[top]));
    std::array<std::uint64_t, 4> words{};
    for (std::size_t i = 0; i < 4; ++i)
      words[i] = ((std::uint64_t{limb(top - i)} << 32 | limb(top - i - 1)) << shift) >> 32;
    exact = static_cast<std::uint32_t>(limb(top - 4) << shift) == 0;
    for (std::size_t i = 5; i <= top; ++i)
      exact = exact && limb(top - i) == 0;
    return {words[0] << 32 | words[1], words[2] << 32 | words[3]};
  }

private:
  /// Zero below the lowest limb, to which an index that has gone below zero wraps.
  constexpr std::uint32_t limb(std::size_t i) const { return i < kLimbs ? limbs_[i] : 0; }

  std::array<std::uint32_t, kLimbs> limbs_{};
};

constexpr PowerOfTen rounded_up(const WideNumber &number, bool truncated) {
  bool exact = false;
  PowerOfTen g = number.leading_bits(exact);
  if (truncated || !exact)
    g.hi += ++g.lo == 0 ? 1 : 0;
  return g;
}

constexpr auto make_powers_of_ten() {
  std::array<PowerOfTen, kMaxPowerOfTen - kMinPowerOfTen + 1> table{};
  WideNumber number = WideNumber::power_of_two(0);
  for (int k = 0; k <= kMaxPowerOfTen; ++k, number.multiply_by_10())
    table[static_cast<std::size_t>(k - kMinPowerOfTen)] = rounded_up(number, false);
  // floor(floor(x / 10) / 10) = floor(x / 100), so dividing again and again loses nothing but the
  // fraction.
  number = WideNumber::power_of_two(32 * (WideNumber::kLimbs - 1));
  for (int k = -1; k >= kMinPowerOfTen; --k) {
    number.divide_by_10();
    table[static_cast<std::size_t>(k - kMinPowerOfTen)] = rounded_up(number, true);
  }
  return table;
}

} // namespace detail

inline constexpr auto kPowersOfTen = detail::make_powers_of_ten();

/// Precondition: kMinPowerOfTen <= k <= kMaxPowerOfTen.
constexpr const PowerOfTen &power_of_ten(int k) noexcept {
  return kPowersOfTen[static_cast<std::size_t>(k - kMinPowerOfTen)];
}

} // namespace headrace
