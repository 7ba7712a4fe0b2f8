// Numbers from 0 to 255, such as pixels: the value of the up to three digits before each place of a
// block is computed for all places at once, and those are kept where a number ends.
#pragma once

#include <cstring>

#include "number_scan_avx2.hpp"

#if HEADRACE_HAS_AVX2

namespace headrace::avx2 {

HEADRACE_AVX2_BEGIN

/// Of 32 bytes of text: at each place behind a number its value.
struct ByteValues {
  __m256i values;
  __m256i ends;      ///< 0xFF behind a number
  __m256i too_large; ///< not 0: some value is above 255; only what stands at `ends` counts
};

/// Precondition: three bytes before `p` are readable.
[[gnu::always_inline]] inline ByteValues byte_values(const char *p,
                                                     const ByteClasses &classes) noexcept {
  const __m256i ones = _mm256_sub_epi8(load32(p - 1), classes.zero);
  const __m256i tens = _mm256_sub_epi8(load32(p - 2), classes.zero);
  const __m256i hundreds = _mm256_sub_epi8(load32(p - 3), classes.zero);
  const __m256i nine = _mm256_set1_epi8(9);
  const __m256i has_tens = _mm256_cmpeq_epi8(_mm256_min_epu8(tens, nine), tens);
  // What is not a digit looks up a 0, be its upper bit set or not.
  const __m256i times_ten = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 0, 0, 0, 0, 0, 0));
  const __m256i times_hundred = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 100, static_cast<char>(200), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  const __m256i above = _mm256_and_si256(hundreds, has_tens);
  const __m256i low = _mm256_add_epi8(ones, _mm256_shuffle_epi8(times_ten, tens));
  const __m256i high = _mm256_shuffle_epi8(times_hundred, above);
  const __m256i values = _mm256_add_epi8(low, high);
  const __m256i ends =
      _mm256_andnot_si256(classes.is_digit(load32(p)), classes.is_digit(load32(p - 1)));
  const __m256i wrapped = _mm256_xor_si256(values, _mm256_adds_epu8(low, high));
  // 3 to 9 hundreds; what is no digit is below 0 or at least 10.
  const __m256i many = _mm256_and_si256(_mm256_cmpgt_epi8(above, _mm256_set1_epi8(2)),
                                        _mm256_cmpgt_epi8(_mm256_set1_epi8(10), above));
  return {values, ends, _mm256_and_si256(ends, _mm256_or_si256(wrapped, many))};
}

/// Packs the bytes at `ends` together at `out`, of which eight more may be written; yields their
/// end.
[[gnu::always_inline]] inline std::uint8_t *keep_ends(const ByteValues &v,
                                                      std::uint8_t *out) noexcept {
  alignas(32) std::uint64_t values[4];
  alignas(32) std::uint64_t ends[4];
  _mm256_store_si256(reinterpret_cast<__m256i *>(values), v.values);
  _mm256_store_si256(reinterpret_cast<__m256i *>(ends), v.ends);
  // Through memory: GCC would take the vectors apart one lane at a time.
  asm("" : "+m"(values), "+m"(ends));
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t kept = _pext_u64(values[i], ends[i]);
    std::memcpy(out, &kept, 8);
    out += std::popcount(ends[i]) / 8;
  }
  return out;
}

/// Whole vectors of T made of 8 bytes.
[[gnu::always_inline]] inline void widen(const std::uint8_t *bytes, float *out) noexcept {
  const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(bytes));
  _mm256_storeu_ps(out, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight)));
}
[[gnu::always_inline]] inline void widen(const std::uint8_t *bytes, double *out) noexcept {
  const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(bytes));
  _mm256_storeu_pd(out, _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(eight)));
  _mm256_storeu_pd(out + 4, _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_srli_si128(eight, 4))));
}
template <class Int>
[[gnu::always_inline]] inline void widen(const std::uint8_t *bytes, Int *out) noexcept {
  const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(bytes));
  auto *const to = reinterpret_cast<__m256i *>(out);
  if constexpr (sizeof(Int) == 8) {
    _mm256_storeu_si256(to, _mm256_cvtepu8_epi64(eight));
    _mm256_storeu_si256(to + 1, _mm256_cvtepu8_epi64(_mm_srli_si128(eight, 4)));
  } else if constexpr (sizeof(Int) == 4) {
    _mm256_storeu_si256(to, _mm256_cvtepu8_epi32(eight));
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out), _mm_cvtepu8_epi16(eight));
  }
}

/// Converts the numbers that end in the 64 bytes at `p`, none of which has more than three digits;
/// `count`: how many there are. False: one is above 255. Up to 72 elements are written.
template <class T>
[[gnu::always_inline]] inline bool convert_bytes(const char *p, const ByteClasses &classes,
                                                 unsigned count, T *out) noexcept {
  const ByteValues low = byte_values(p, classes);
  const ByteValues high = byte_values(p + 32, classes);
  const __m256i too_large = _mm256_or_si256(low.too_large, high.too_large);
  if (_mm256_testz_si256(too_large, too_large) == 0)
    return false;
  if constexpr (sizeof(T) == 1) {
    keep_ends(high, keep_ends(low, reinterpret_cast<std::uint8_t *>(out)));
  } else {
    std::uint8_t bytes[64 + 8];
    keep_ends(high, keep_ends(low, bytes));
    for (unsigned i = 0; i < count; i += 8)
      widen(bytes + i, out + i);
  }
  return true;
}

HEADRACE_AVX2_END

} // namespace headrace::avx2

#endif
