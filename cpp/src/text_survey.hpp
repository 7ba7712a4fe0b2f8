// What is asked of a body before it is read: one pass at the speed of memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "headrace/simd.hpp"

namespace headrace {

struct TextSurvey {
  std::uint64_t commas = 0; ///< no tensor has more elements than one more than these
  bool is_ascii = true;     ///< hence UTF-8
};

TextSurvey survey_text(std::string_view text, Simd level) noexcept;

namespace avx2 {
/// Precondition: the size is a multiple of 32.
TextSurvey survey_blocks(std::string_view text) noexcept;
} // namespace avx2

} // namespace headrace
