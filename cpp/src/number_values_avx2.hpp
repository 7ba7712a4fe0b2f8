// Numbers found in text to values: four at a time, 16 characters of each in a lane of 128 bits.
//
// A group is converted whole, and those of the four are named that need another reader: too long,
// out of range, or so near to the middle between two floats that the product below cannot tell.
#pragma once

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "number_tokens_avx2.hpp"

#if HEADRACE_HAS_AVX2

namespace headrace::avx2 {

/// For each place of the point: bytes before it are 0, from it on 0xFF.
inline constexpr auto kFromPoint = [] {
  std::array<std::array<std::uint8_t, 16>, 17> masks{};
  for (std::size_t point = 0; point <= 16; ++point)
    for (std::size_t i = point; i < 16; ++i)
      masks[point][i] = 0xFF;
  return masks;
}();

/// Weight of the last of 16 digits, of which so many stand before the point.
inline constexpr double kScale[17] = {1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8,
                                      1e-7,  1e-6,  1e-5,  1e-4,  1e-3,  1e-2,  1e-1,  1e0};

HEADRACE_AVX2_BEGIN

/// Keeps what a loop needs in registers or on the stack: the compiler, left alone, makes each
/// constant anew in every turn.
template <class Vector> [[gnu::always_inline]] inline Vector hold(Vector vector) noexcept {
  asm("" : "+x"(vector));
  return vector;
}

[[gnu::always_inline]] inline __m256i twice(__m128i lane) noexcept {
  return hold(_mm256_broadcastsi128_si256(lane));
}

/// What the conversion of digits multiplies and compares with.
struct DigitConstants {
  DigitConstants() noexcept {} // not by default: that one would be compiled for any processor

  const __m256i zero = hold(_mm256_set1_epi8('0'));
  const __m256i sixteen = hold(_mm256_set1_epi32(16));
  const __m256i even_length = hold(_mm256_set1_epi8(4)); ///< see lengths()
  const __m256i odd_length = hold(_mm256_set1_epi8(12));
  const __m256i pairs = hold(_mm256_set1_epi16(0x010A));      ///< 10, 1
  const __m256i fours = hold(_mm256_set1_epi32(0x00010064));  ///< 100, 1
  const __m256i eights = hold(_mm256_set1_epi32(0x00012710)); ///< 10,000, 1
  const __m256i ascending =
      twice(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  const __m256i descending =
      twice(_mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
};

struct FloatConstants : DigitConstants {
  FloatConstants() noexcept {}

  const __m256i point = hold(_mm256_set1_epi8('.'));
  /// Of the pairs of d.ddd: the point has the weight 0.
  const __m256i pointed =
      twice(_mm_setr_epi8(1, 0, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1));
  const __m256d first_half = hold(_mm256_set1_pd(1e8));
  const __m256d one = hold(_mm256_set1_pd(1));
  const __m256d pointed_scale = hold(_mm256_set1_pd(1e-14));
  const __m256d below = hold(_mm256_set1_pd(1 - 0x1p-50));
  const __m256d above = hold(_mm256_set1_pd(1 + 0x1p-50));
};

/// 16 characters of the numbers i, i + 2 (`even`) and i + 1, i + 3 (`odd`).
struct FourTexts {
  __m256i even, odd;
};

[[gnu::always_inline]] inline __m256i load_two(const char *low, const char *high) noexcept {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i *>(low))),
      _mm_loadu_si128(reinterpret_cast<const __m128i *>(high)), 1);
}

[[gnu::always_inline]] inline FourTexts load_four(const char *base, const std::uint32_t *places,
                                                  std::ptrdiff_t move) noexcept {
  const char *const from = base + move;
  return {load_two(from + places[0], from + places[4]),
          load_two(from + places[2], from + places[6])};
}

/// Four 64-bit lanes: the lengths of the numbers in the upper half, and anything in the lower.
[[gnu::always_inline]] inline __m256i lengths(const std::uint32_t *bounds) noexcept {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(bounds));
  return _mm256_sub_epi32(pairs, _mm256_slli_epi64(pairs, 32));
}

/// Characters to digits, 0 at all places but the first `length` (as lengths() has them) of
/// `places`.
[[gnu::always_inline]] inline FourTexts keep_digits(FourTexts text, __m256i length, __m256i places,
                                                    const DigitConstants &c) noexcept {
  const __m256i kept = _mm256_min_epu32(length, c.sixteen);
  const __m256i even = _mm256_cmpgt_epi8(_mm256_shuffle_epi8(kept, c.even_length), places);
  const __m256i odd = _mm256_cmpgt_epi8(_mm256_shuffle_epi8(kept, c.odd_length), places);
  return {_mm256_and_si256(_mm256_sub_epi8(text.even, c.zero), even),
          _mm256_and_si256(_mm256_sub_epi8(text.odd, c.zero), odd)};
}

/// Sixteen digits each, as values 0 to 9: the first eight and the last eight as numbers, four
/// pairs in the order of the numbers. `weights`: of the digits of a pair.
[[gnu::always_inline]] inline __m256i join_digits(FourTexts digits, __m256i weights,
                                                  const DigitConstants &c) noexcept {
  const __m256i even = _mm256_madd_epi16(_mm256_maddubs_epi16(digits.even, weights), c.fours);
  const __m256i odd = _mm256_madd_epi16(_mm256_maddubs_epi16(digits.odd, weights), c.fours);
  return _mm256_madd_epi16(_mm256_packus_epi32(even, odd), c.eights);
}

/// Pairs of eight digits to float64, with one rounding where there are more than 53 bits.
[[gnu::always_inline]] inline __m256d to_double(__m256i halves, const FloatConstants &c) noexcept {
  const __m128 low = _mm_castsi128_ps(_mm256_castsi256_si128(halves));
  const __m128 high = _mm_castsi128_ps(_mm256_extracti128_si256(halves, 1));
  const __m256d first =
      _mm256_cvtepi32_pd(_mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0))));
  const __m256d last =
      _mm256_cvtepi32_pd(_mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1))));
  return _mm256_fmadd_pd(first, c.first_half, last);
}

/// 1 where a number has more than 16 digits, else 0; `length`: as lengths() has it.
[[gnu::always_inline]] inline __m256d is_cut(__m256i length, const FloatConstants &c) noexcept {
  return _mm256_and_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi32(length, c.sixteen)), c.one);
}

/// All ones in the 32-bit lanes of the numbers i to i + 3 that have a minus sign.
[[gnu::always_inline]] inline __m128i negatives(const Tokens &tokens, std::size_t i) noexcept {
  const __m128i bits = _mm_set1_epi32(static_cast<int>(tokens.signs_of(i))); // i % 4 == 0
  const __m128i each = _mm_setr_epi32(1, 2, 4, 8);
  return _mm_cmpeq_epi32(_mm_and_si128(bits, each), each);
}

struct Float32s {
  __m128 values;
  unsigned unsure; ///< a bit for each of the four
};

/// The nearest float32 to digits × scale, where that is certain. The true value lies between
/// (digits) and (digits + cut) × scale, give or take what three roundings in float64 can do; if
/// both ends have the same nearest float32, it is the answer, whatever its size.
[[gnu::always_inline]] inline Float32s round_to_float32(__m256d digits, __m256d scale, __m256d cut,
                                                        const FloatConstants &c) noexcept {
  const __m256d value = _mm256_mul_pd(digits, scale);
  const __m256d upper = _mm256_fmadd_pd(cut, scale, value);
  const __m128 least = _mm256_cvtpd_ps(_mm256_mul_pd(value, c.below));
  const __m128 most = _mm256_cvtpd_ps(_mm256_mul_pd(upper, c.above));
  const __m128i same = _mm_cmpeq_epi32(_mm_castps_si128(least), _mm_castps_si128(most));
  return {least, static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(same))) ^ 0xF};
}

/// Numbers i to i + 3 of any form: i.f, or i alone.
[[gnu::noinline]] inline Float32s mixed_float32(const Tokens &tokens, std::size_t i, FourTexts text,
                                                FourTexts dots, const FloatConstants &c) noexcept {
  const std::uint32_t *const bounds = tokens.bounds(i);
  const auto even = static_cast<unsigned>(_mm256_movemask_epi8(dots.even));
  const auto odd = static_cast<unsigned>(_mm256_movemask_epi8(dots.odd));
  const unsigned marks[4] = {even & 0xFFFF, odd & 0xFFFF, even >> 16, odd >> 16};
  const std::uint8_t *from_point[4];
  double scales[4];
  alignas(32) std::uint32_t digits[8] = {}; // as lengths() has them
  unsigned unsure = 0;
  unsigned integers = 0;
  for (unsigned k = 0; k < 4; ++k) {
    const std::uint32_t length = bounds[2 * k + 1] - bounds[2 * k];
    const std::uint32_t seen = length < 16 ? length : 16;
    const unsigned point = static_cast<unsigned>(_tzcnt_u32(marks[k] | 1U << seen));
    const bool whole = point == seen; // no point, or none in sight
    from_point[k] = kFromPoint[point].data();
    scales[k] = kScale[point];
    digits[2 * k + 1] = length - (whole ? 0 : 1);
    integers |= (whole ? 1U : 0U) << k;
    // The point may be out of sight; no zero comes before other digits.
    const bool zero = tokens.base()[bounds[2 * k]] == '0' && point != 1;
    unsure |= ((whole && length > 16) || zero ? 1U : 0U) << k;
  }
  const FourTexts next = load_four(tokens.base(), bounds, 1);
  const auto mask = [](const std::uint8_t *p) { return reinterpret_cast<const char *>(p); };
  text.even =
      _mm256_blendv_epi8(text.even, next.even, load_two(mask(from_point[0]), mask(from_point[2])));
  text.odd =
      _mm256_blendv_epi8(text.odd, next.odd, load_two(mask(from_point[1]), mask(from_point[3])));
  const __m256i count = _mm256_load_si256(reinterpret_cast<const __m256i *>(digits));
  const __m256d value =
      to_double(join_digits(keep_digits(text, count, c.ascending, c), c.pairs, c), c);
  Float32s result = round_to_float32(value, _mm256_loadu_pd(scales), is_cut(count, c), c);
  // -0 is 0, being an integer, and -0.0 is not.
  const auto zeros = static_cast<unsigned>(
      _mm256_movemask_pd(_mm256_cmp_pd(value, _mm256_setzero_pd(), _CMP_EQ_OQ)));
  result.unsure |= unsure | (integers & zeros);
  return result;
}

/// Numbers i to i + 3, whatever their form. Precondition: i is a multiple of 4.
[[gnu::always_inline]] inline Float32s to_float32(const Tokens &tokens, std::size_t i,
                                                  const FloatConstants &c) noexcept {
  const std::uint32_t *const bounds = tokens.bounds(i);
  const FourTexts text = load_four(tokens.base(), bounds, 0);
  const FourTexts dots = {_mm256_cmpeq_epi8(text.even, c.point),
                          _mm256_cmpeq_epi8(text.odd, c.point)};
  constexpr int kSecond = 0x0002'0002;
  Float32s result;
  if ((_mm256_movemask_epi8(_mm256_and_si256(dots.even, dots.odd)) & kSecond) == kSecond)
      [[likely]] { // all are d.ddd
    const __m256i length = lengths(bounds);
    const FourTexts digits = keep_digits(text, length, c.ascending, c);
    result = round_to_float32(to_double(join_digits(digits, c.pointed, c), c), c.pointed_scale,
                              is_cut(length, c), c);
  } else {
    result = mixed_float32(tokens, i, text, dots, c);
  }
  if (tokens.any_negative()) {
    const __m128i sign = _mm_slli_epi32(negatives(tokens, i), 31);
    result.values = _mm_xor_ps(result.values, _mm_castsi128_ps(sign));
  }
  return result;
}

struct Integers {
  __m256i values;  ///< 64-bit lanes
  unsigned unsure; ///< a bit for each of the four
};

/// Numbers i to i + 3, without points, as Int. Precondition: i is a multiple of 4; 16 bytes before
/// the text are readable.
template <class Int>
[[gnu::always_inline]] inline Integers to_integers(const Tokens &tokens, std::size_t i,
                                                   const DigitConstants &c) noexcept {
  const std::uint32_t *const bounds = tokens.bounds(i);
  const FourTexts text = load_four(tokens.base(), bounds + 1, -16);
  const __m256i length = lengths(bounds);
  const __m256i halves = join_digits(keep_digits(text, length, c.descending, c), c.pairs, c);
  const __m256i magnitude = _mm256_add_epi64(
      _mm256_mul_epu32(halves, _mm256_set1_epi64x(100'000'000)), _mm256_srli_epi64(halves, 32));
  const __m256i negative = _mm256_cvtepi32_epi64(negatives(tokens, i));
  __m256i unsure = _mm256_cmpgt_epi32(length, c.sixteen); // the sign bits of the lanes
  if constexpr (std::is_unsigned_v<Int>)
    unsure = _mm256_or_si256(unsure, negative);
  if constexpr (sizeof(Int) < 8) {
    const __m256i most = _mm256_sub_epi64(
        _mm256_set1_epi64x(static_cast<std::int64_t>(std::numeric_limits<Int>::max())), negative);
    unsure = _mm256_or_si256(unsure, _mm256_cmpgt_epi64(magnitude, most));
  }
  return {_mm256_sub_epi64(_mm256_xor_si256(magnitude, negative), negative),
          static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(unsure)))};
}

/// The low 32 bits of each 64-bit lane.
[[gnu::always_inline]] inline __m128i low_halves(__m256i lanes) noexcept {
  return _mm256_castsi256_si128(
      _mm256_permutevar8x32_epi32(lanes, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
}

HEADRACE_AVX2_END

} // namespace headrace::avx2

#endif
