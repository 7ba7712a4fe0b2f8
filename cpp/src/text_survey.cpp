#include "text_survey.hpp"

#include <algorithm>
#include <cstring>

#include "simd_region.hpp"

namespace headrace {

namespace {

using Bytes [[gnu::vector_size(16)]] = unsigned char;

// Sixteen counters of a byte each, emptied before they can overflow: the compiler makes of the
// plain loop over single bytes something twenty times slower.
void survey_portably(std::string_view text, TextSurvey &survey) noexcept {
  constexpr std::size_t kStretch = std::size_t{16} * 255;
  Bytes seen{};
  while (text.size() >= 16) {
    const std::size_t stretch = std::min(kStretch, text.size() / 16 * 16);
    Bytes counters{};
    for (std::size_t i = 0; i < stretch; i += 16) {
      Bytes bytes;
      std::memcpy(&bytes, text.data() + i, 16);
      counters -= reinterpret_cast<Bytes>(bytes == ',');
      seen |= bytes;
    }
    for (int i = 0; i < 16; ++i)
      survey.commas += counters[i];
    text.remove_prefix(stretch);
  }
  unsigned char high = 0;
  for (int i = 0; i < 16; ++i)
    high |= seen[i];
  for (const char c : text) {
    survey.commas += c == ',' ? 1 : 0;
    high |= static_cast<unsigned char>(c);
  }
  survey.is_ascii = survey.is_ascii && high < 0x80;
}

} // namespace

TextSurvey survey_text(std::string_view text, [[maybe_unused]] Simd level) noexcept {
  TextSurvey survey;
#if HEADRACE_HAS_AVX2
  if (level == Simd::kAvx2) {
    const std::size_t blocks = text.size() / 32 * 32;
    survey = avx2::survey_blocks(text.substr(0, blocks));
    text.remove_prefix(blocks);
  }
#endif
  survey_portably(text, survey);
  return survey;
}

} // namespace headrace
