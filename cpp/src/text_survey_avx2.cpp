#include "text_survey.hpp"

#include <algorithm>

#include "simd_region.hpp"

#if HEADRACE_HAS_AVX2

HEADRACE_AVX2_BEGIN

namespace headrace::avx2 {

TextSurvey survey_blocks(std::string_view text) noexcept {
  const auto *p = reinterpret_cast<const __m256i *>(text.data());
  const auto *const end = p + text.size() / 32;
  const __m256i comma = _mm256_set1_epi8(',');
  const __m256i zero = _mm256_setzero_si256();
  __m256i total = zero; // of four lanes of 64 bits
  __m256i seen = zero;
  while (p != end) {
    __m256i counters = zero; // of a byte each, hence for at most 255 blocks
    for (const auto *const stretch = p + std::min<std::ptrdiff_t>(255, end - p); p != stretch;
         ++p) {
      const __m256i bytes = _mm256_loadu_si256(p);
      counters = _mm256_sub_epi8(counters, _mm256_cmpeq_epi8(bytes, comma));
      seen = _mm256_or_si256(seen, bytes);
    }
    total = _mm256_add_epi64(total, _mm256_sad_epu8(counters, zero));
  }
  const __m128i half =
      _mm_add_epi64(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
  return {static_cast<std::uint64_t>(_mm_cvtsi128_si64(half)) +
              static_cast<std::uint64_t>(_mm_extract_epi64(half, 1)),
          _mm256_movemask_epi8(seen) == 0};
}

} // namespace headrace::avx2

HEADRACE_AVX2_END

#endif
