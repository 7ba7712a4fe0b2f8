// Numbers found in text to values: four at a time, 16 characters of each in a lane of 128 bits.
//
// A group is converted whole, and those of the four are named that need another reader: too long,
// out of range, or so near to the middle between two floats that the products below cannot tell.
#pragma once

#include <limits>
#include <type_traits>

#include "decimal_scale.hpp"
#include "number_scan_avx2.hpp"
#include "number_tokens_avx2.hpp"

#if HEADRACE_HAS_AVX2

namespace headrace::avx2 {

HEADRACE_AVX2_BEGIN

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

struct RealConstants : DigitConstants {
  RealConstants() noexcept {}

  const __m256i point = hold(_mm256_set1_epi8('.' - '0'));
  /// Of the pairs of d.ddd: the point has the weight 0.
  const __m256i pointed =
      twice(_mm_setr_epi8(1, 0, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1, 10, 1));
  const __m256d first_half = hold(_mm256_set1_pd(1e8));
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

/// Characters less '0', 0 at all places but the first `length` (as lengths() has them) of `places`.
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
[[gnu::always_inline]] inline __m256d to_double(__m256i halves, const RealConstants &c) noexcept {
  const __m128 low = _mm_castsi128_ps(_mm256_castsi256_si128(halves));
  const __m128 high = _mm_castsi128_ps(_mm256_extracti128_si256(halves, 1));
  const __m256d first =
      _mm256_cvtepi32_pd(_mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0))));
  const __m256d last =
      _mm256_cvtepi32_pd(_mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1))));
  return _mm256_fmadd_pd(first, c.first_half, last);
}

/// Where a number has more than 16 characters all ones, else 0; `length`: as lengths() has it. Of
/// the four lanes only the upper halves count.
[[gnu::always_inline]] inline __m256i is_long(__m256i length, const DigitConstants &c) noexcept {
  return _mm256_cmpgt_epi32(length, c.sixteen);
}

/// All ones in the 32-bit lanes of the numbers i to i + 3 that have a minus sign.
[[gnu::always_inline]] inline __m128i negatives(const Tokens &tokens, std::size_t i) noexcept {
  const __m128i bits = _mm_set1_epi32(static_cast<int>(tokens.signs_of(i))); // i % 4 == 0
  const __m128i each = _mm_setr_epi32(1, 2, 4, 8);
  return _mm_cmpeq_epi32(_mm_and_si128(bits, each), each);
}

/// A bit for each of four lanes of 64 bits: its topmost.
[[gnu::always_inline]] inline unsigned tops(__m256i lanes) noexcept {
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(lanes)));
}

/// What four numbers consist of: digits × 10^k, or somewhat more if there are more digits than 16
/// characters hold.
struct Decimals {
  __m256d digits; ///< below 10^16; exact where at most 15 digits are not 0
  __m256d scale;  ///< nearest to 10^k
  __m256d rest;   ///< 10^k less `scale`; only for float64
};

/// Values of float32, how the digits become the nearest one, and when that is not certain.
struct Float32 {
  using Constants = RealConstants;
  using Vector = __m128;
  struct Four {
    __m128 values;
    unsigned unsure; ///< a bit for each of the four
  };
  static constexpr bool kNeedsRest = false;

  /// The true value lies between (digits) and (digits + `unit`) × scale if there are more digits
  /// than that, else it is digits × scale, give or take what three roundings in float64 can do. If
  /// both ends have the same nearest float32, it is the answer, whatever its size.
  [[gnu::always_inline]] static Four round(const Decimals &d, __m256i is_long, double unit,
                                           const Tokens &, std::size_t) noexcept {
    const __m256d value = _mm256_mul_pd(d.digits, d.scale);
    const __m256d more = _mm256_and_pd(_mm256_castsi256_pd(is_long), _mm256_set1_pd(unit));
    const __m256d upper = _mm256_fmadd_pd(more, d.scale, value);
    const __m128 least = _mm256_cvtpd_ps(_mm256_mul_pd(value, _mm256_set1_pd(1 - 0x1p-50)));
    const __m128 most = _mm256_cvtpd_ps(_mm256_mul_pd(upper, _mm256_set1_pd(1 + 0x1p-50)));
    const __m128i same = _mm_cmpeq_epi32(_mm_castps_si128(least), _mm_castps_si128(most));
    return {least, static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(same))) ^ 0xF};
  }
  [[gnu::always_inline]] static __m128 negate(__m128 values, __m128i negative) noexcept {
    return _mm_xor_ps(values, _mm_castsi128_ps(_mm_slli_epi32(negative, 31)));
  }
  [[gnu::always_inline]] static unsigned are_infinite(__m128 values) noexcept {
    const __m128 infinity = _mm_set1_ps(std::numeric_limits<float>::infinity());
    return static_cast<unsigned>(_mm_movemask_ps(_mm_cmpeq_ps(values, infinity)));
  }
  [[gnu::always_inline]] static void store(float *out, __m128 values) noexcept {
    _mm_storeu_ps(out, values);
  }
};

/// The same of float64, in the arithmetic of sums of two doubles.
struct Float64 {
  using Constants = RealConstants;
  using Vector = __m256d;
  struct Four {
    __m256d values;
    unsigned unsure;
  };
  static constexpr bool kNeedsRest = true;
  static constexpr std::uint32_t kMostCharacters = 24;

  /// Up to eight digits that follow the first 16 characters of the numbers i to i + 3, as numbers
  /// of eight digits.
  [[gnu::always_inline]] static __m256d more_digits(const Tokens &tokens, std::size_t i) noexcept {
    const std::uint32_t *const bounds = tokens.bounds(i);
    const char *const from = tokens.base() + 16;
    const auto eight = [from](std::uint32_t place) {
      return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(from + place));
    };
    const __m128i first = _mm_unpacklo_epi64(eight(bounds[0]), eight(bounds[2]));
    const __m128i last = _mm_unpacklo_epi64(eight(bounds[4]), eight(bounds[6]));
    const __m256i text = _mm256_inserti128_si256(_mm256_castsi128_si256(first), last, 1);
    // Lengths below 16 wrap to what is no more than 0.
    const __m256i more = _mm256_max_epi32(_mm256_sub_epi32(lengths(bounds), _mm256_set1_epi32(16)),
                                          _mm256_setzero_si256());
    const __m256i each =
        twice(_mm_setr_epi8(4, 4, 4, 4, 4, 4, 4, 4, 12, 12, 12, 12, 12, 12, 12, 12));
    const __m256i places = twice(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i kept = _mm256_cmpgt_epi8(
        _mm256_shuffle_epi8(_mm256_min_epu32(more, _mm256_set1_epi32(8)), each), places);
    const __m256i digits = _mm256_and_si256(_mm256_sub_epi8(text, _mm256_set1_epi8('0')), kept);
    const __m256i fours =
        _mm256_madd_epi16(_mm256_maddubs_epi16(digits, _mm256_set1_epi16(0x010A)),
                          _mm256_set1_epi32(0x00010064)); // four digits in each 32 bits
    const __m256i eights =
        _mm256_madd_epi16(_mm256_packus_epi32(fours, fours), _mm256_set1_epi32(0x00012710));
    const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 0, 1, 4, 5);
    return _mm256_cvtepi32_pd(_mm256_castsi256_si128(_mm256_permutevar8x32_epi32(eights, order)));
  }

  /// As of Float32. Here the digits that 16 characters cut off are added, up to 24 characters: the
  /// first of them counts `unit` / 10.
  [[gnu::always_inline]] static Four round(const Decimals &d, __m256i is_long, double unit,
                                           const Tokens &tokens, std::size_t i) noexcept {
    const __m256d value = _mm256_mul_pd(d.digits, d.scale);
    // digits × (scale + rest) = value + error, to some 2^-103 of value.
    __m256d error = _mm256_fmadd_pd(d.digits, d.rest, _mm256_fmsub_pd(d.digits, d.scale, value));
    __m256d margin = _mm256_mul_pd(value, _mm256_set1_pd(0x1p-100));
    unsigned unsure = 0;
    if (tops(is_long) != 0) {
      const __m256d more = _mm256_mul_pd(more_digits(tokens, i),
                                         _mm256_mul_pd(d.scale, _mm256_set1_pd(unit * 1e-8)));
      error = _mm256_add_pd(error, more);
      margin = _mm256_fmadd_pd(more, _mm256_set1_pd(0x1p-48), margin);
      unsure = tops(_mm256_cmpgt_epi32(lengths(tokens.bounds(i)),
                                       _mm256_set1_epi32(static_cast<int>(kMostCharacters))));
    }
    const __m256d least = _mm256_add_pd(value, _mm256_sub_pd(error, margin));
    const __m256d most = _mm256_add_pd(value, _mm256_add_pd(error, margin));
    unsure |= static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(least, most, _CMP_NEQ_UQ)));
    return {least, unsure};
  }
  [[gnu::always_inline]] static __m256d negate(__m256d values, __m128i negative) noexcept {
    const __m256i sign = _mm256_slli_epi64(_mm256_cvtepi32_epi64(negative), 63);
    return _mm256_xor_pd(values, _mm256_castsi256_pd(sign));
  }
  [[gnu::always_inline]] static unsigned are_infinite(__m256d) noexcept {
    return 0; // Tokens::kMostExponent is far from there
  }
  [[gnu::always_inline]] static void store(double *out, __m256d values) noexcept {
    _mm256_storeu_pd(out, values);
  }
};

/// Numbers i to i + 3 of any form: i.f, or i alone, with or without an exponent. `even` and `odd`:
/// as keep_digits() has them.
template <class Real>
[[gnu::noinline]] typename Real::Four mixed_reals(const Tokens &tokens, std::size_t i, __m256i even,
                                                  __m256i odd, const RealConstants &c) noexcept {
  const __m256i length = lengths(tokens.bounds(i));
  const __m256i none = _mm256_setzero_si256();
  // How many of the 16 characters come behind where the point stands, itself included; 0 if there
  // is none: the only place that is kept is summed up.
  const __m256i rank = _mm256_sub_epi8(_mm256_set1_epi8(16), c.ascending);
  const __m256i even_rank =
      _mm256_sad_epu8(_mm256_and_si256(_mm256_cmpeq_epi8(even, c.point), rank), none);
  const __m256i odd_rank =
      _mm256_sad_epu8(_mm256_and_si256(_mm256_cmpeq_epi8(odd, c.point), rank), none);
  const __m256i point = _mm256_add_epi64(_mm256_unpacklo_epi64(even_rank, odd_rank),
                                         _mm256_unpackhi_epi64(even_rank, odd_rank));
  // An integer's point would stand behind its last digit.
  const __m256i kept = _mm256_srli_epi64(_mm256_min_epu32(length, c.sixteen), 32);
  const __m256i behind = _mm256_max_epu32(point, _mm256_sub_epi64(_mm256_set1_epi64x(16), kept));
  // From the point on, each character makes place for the next.
  const __m256i each = twice(_mm_setr_epi8(8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8));
  const __m256i even_moved = _mm256_cmpgt_epi8(_mm256_shuffle_epi8(behind, none), c.descending);
  const __m256i odd_moved = _mm256_cmpgt_epi8(_mm256_shuffle_epi8(behind, each), c.descending);
  const FourTexts digits = {_mm256_blendv_epi8(even, _mm256_bsrli_epi128(even, 1), even_moved),
                            _mm256_blendv_epi8(odd, _mm256_bsrli_epi128(odd, 1), odd_moved)};
  Decimals d;
  d.digits = to_double(join_digits(digits, c.pairs, c), c);

  alignas(32) std::int64_t power[4];
  __m256i k = _mm256_sub_epi64(none, behind);
  const bool has_exponent = tokens.has_exponent(i);
  if (has_exponent) {
    const __m128i exponents =
        _mm_loadl_epi64(reinterpret_cast<const __m128i *>(tokens.exponents(i)));
    k = _mm256_add_epi64(k, _mm256_cvtepi16_epi64(exponents));
  }
  _mm256_store_si256(reinterpret_cast<__m256i *>(power), k);
  static_assert(-16 - Tokens::kMostExponent >= kMinDecimalScale &&
                Tokens::kMostExponent <= kMaxDecimalScale);
  const DecimalScale *const unit = &decimal_scale(0);
  d.scale = _mm256_setr_pd(unit[power[0]].high, unit[power[1]].high, unit[power[2]].high,
                           unit[power[3]].high);
  if constexpr (Real::kNeedsRest)
    d.rest = _mm256_setr_pd(unit[power[0]].low, unit[power[1]].low, unit[power[2]].low,
                            unit[power[3]].low);
  const __m256i has_more = is_long(length, c);
  typename Real::Four result = Real::round(d, has_more, 10, tokens, i);
  // The point may be out of sight; and no zero comes before other digits.
  const __m256i whole = _mm256_cmpeq_epi64(point, none);
  const __m256i led_by_zero = _mm256_and_si256(
      _mm256_castpd_si256(_mm256_cmp_pd(d.digits, _mm256_set1_pd(1e15), _CMP_LT_OQ)),
      _mm256_cmpgt_epi64(_mm256_set1_epi64x(15), behind));
  result.unsure |= tops(_mm256_or_si256(_mm256_and_si256(has_more, whole), led_by_zero));
  if (has_exponent)
    result.unsure |= Real::are_infinite(result.values);
  if (tokens.any_negative()) // -0 is 0, being an integer, and -0.0 is not
    result.unsure |= tops(_mm256_and_si256(
        whole, _mm256_castpd_si256(_mm256_cmp_pd(d.digits, _mm256_setzero_pd(), _CMP_EQ_OQ))));
  return result;
}

/// Numbers i to i + 3, whatever their form. Precondition: i is a multiple of 4.
template <class Real>
[[gnu::always_inline]] inline typename Real::Four to_reals(const Tokens &tokens, std::size_t i,
                                                           const RealConstants &c) noexcept {
  const std::uint32_t *const bounds = tokens.bounds(i);
  const __m256i length = lengths(bounds);
  const FourTexts digits = keep_digits(load_four(tokens.base(), bounds, 0), length, c.ascending, c);
  const __m256i points = _mm256_cmpeq_epi8(_mm256_and_si256(digits.even, digits.odd), c.point);
  constexpr int kSecond = 0x0002'0002;
  typename Real::Four result;
  // Two characters make a point when and-ed only if both are one, 0xFE being no other's subset.
  if ((_mm256_movemask_epi8(points) & kSecond) == kSecond && !tokens.has_exponent(i))
      [[likely]] { // all are d.ddd
    Decimals d;
    d.digits = to_double(join_digits(digits, c.pointed, c), c);
    d.scale = _mm256_set1_pd(decimal_scale(-14).high);
    if constexpr (Real::kNeedsRest)
      d.rest = _mm256_set1_pd(decimal_scale(-14).low);
    result = Real::round(d, is_long(length, c), 1, tokens, i);
  } else {
    result = mixed_reals<Real>(tokens, i, digits.even, digits.odd, c);
  }
  if (tokens.any_negative())
    result.values = Real::negate(result.values, negatives(tokens, i));
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
  __m256i unsure = is_long(length, c);
  if constexpr (std::is_unsigned_v<Int>)
    unsure = _mm256_or_si256(unsure, negative);
  if constexpr (sizeof(Int) < 8) {
    const __m256i most = _mm256_sub_epi64(
        _mm256_set1_epi64x(static_cast<std::int64_t>(std::numeric_limits<Int>::max())), negative);
    unsure = _mm256_or_si256(unsure, _mm256_cmpgt_epi64(magnitude, most));
  }
  return {_mm256_sub_epi64(_mm256_xor_si256(magnitude, negative), negative), tops(unsure)};
}

/// The low 32 bits of each 64-bit lane.
[[gnu::always_inline]] inline __m128i low_halves(__m256i lanes) noexcept {
  return _mm256_castsi256_si128(
      _mm256_permutevar8x32_epi32(lanes, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
}

HEADRACE_AVX2_END

} // namespace headrace::avx2

#endif
