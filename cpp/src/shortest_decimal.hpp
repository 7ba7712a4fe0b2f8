// The shortest decimal that reads back as a given binary float: Raffaello Giulietti's Schubfach
// ("The Schubfach way to render doubles", 2020).
//
// A float c * 2^q is the middle of an interval of reals that all round to it. With k the largest
// power such that 10^k does not exceed the interval's width, at least one multiple of 10^k lies in
// it, and at most one multiple of 10^(k+1): if there is one of the latter it is the shortest, else
// the multiple of 10^k that is nearest to the value. All is scaled by 10^-k with a product of fixed
// precision, whose last bit is set where something was cut off ("round to odd"): enough to decide
// every comparison, as the paper proves for these sizes.
#pragma once

#include <cstdint>

#include "powers_of_ten.hpp"

namespace headrace {

/// digits * 10^exponent. `digits` may end in zeros, which do not count.
struct ShortestDecimal {
  std::uint64_t digits;
  int exponent;
};

namespace detail {

__extension__ using Uint128 = unsigned __int128;

// Integer logarithms by multiplication, exact for all exponents that occur here.
constexpr int floor_log10_of_pow2(int q) noexcept { return (q * 1'262'611) >> 22; }
constexpr int floor_log10_of_three_quarters_pow2(int q) noexcept {
  return (q * 1'262'611 - 524'031) >> 22;
}
constexpr int floor_log2_of_pow10(int k) noexcept { return (k * 1'741'647) >> 19; }

/// floor(g * factor / 2^64) of a 64-bit g, with bit 0 set if more than g's own rounding was cut
/// off.
inline std::uint32_t scale_to_odd(const PowerOfTen &power, std::uint32_t factor) noexcept {
  const std::uint64_t g = power.hi + (power.lo != 0 ? 1 : 0);
  const Uint128 product = Uint128{g} * factor;
  const auto cut = static_cast<std::uint32_t>(product >> 32);
  return static_cast<std::uint32_t>(product >> 64) | (cut > 1 ? 1U : 0U);
}

/// The same of the whole 128-bit g: floor(g * factor / 2^128).
inline std::uint64_t scale_to_odd(const PowerOfTen &power, std::uint64_t factor) noexcept {
  const auto low = static_cast<std::uint64_t>((Uint128{power.lo} * factor) >> 64);
  const Uint128 product = Uint128{power.hi} * factor + low;
  const auto cut = static_cast<std::uint64_t>(product);
  return static_cast<std::uint64_t>(product >> 64) | (cut > 1 ? 1U : 0U);
}

} // namespace detail

/// The shortest decimal of c * 2^q. `lower_is_closer`: c is the least significand of its binade, so
/// that the float below is half as far as the one above. `Word` is uint32_t for c < 2^24 and
/// exponents within binary32's, else uint64_t. Precondition: c > 0.
template <class Word>
ShortestDecimal shortest_decimal(Word c, int q, bool lower_is_closer) noexcept {
  const int k = lower_is_closer ? detail::floor_log10_of_three_quarters_pow2(q)
                                : detail::floor_log10_of_pow2(q);
  const int h = q + detail::floor_log2_of_pow10(-k) + 1; // 1 to 4
  const PowerOfTen &g = power_of_ten(-k);
  // The interval and the value in quarters of a unit of 10^k. Its ends round to even significands
  // only.
  const Word odd = c & 1;
  const Word lower =
      detail::scale_to_odd(g, static_cast<Word>((4 * c - (lower_is_closer ? 1 : 2)) << h)) + odd;
  const Word value = detail::scale_to_odd(g, static_cast<Word>((4 * c) << h));
  const Word upper = detail::scale_to_odd(g, static_cast<Word>((4 * c + 2) << h)) - odd;

  // Whether the shorter form exists is a toss-up for most values, so both are worked out and one is
  // taken by a mask: a branch would be mispredicted half of the time.
  const Word s = value / 4;
  const Word tens = s / 10;
  const bool tens_below = lower <= 40 * tens;
  const bool tens_above = 40 * tens + 40 <= upper;
  const Word shorter = 10 * (tens + Word{tens_above});
  const bool below = lower <= 4 * s;
  const bool above = 4 * s + 4 <= upper;
  const Word middle = 4 * s + 2;
  const bool nearer_above = value > middle - (s & 1); // ties go to the even one
  const bool above_only = above && !below;
  const bool either = below == above;
  const Word longer = s + Word{above_only || (either && nearer_above)};
  const Word mask = Word{0} - Word{s >= 10 && tens_below != tens_above};
  return {longer ^ ((longer ^ shorter) & mask), k};
}

} // namespace headrace
