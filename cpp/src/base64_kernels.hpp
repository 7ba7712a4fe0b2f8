// The inner loops of base64, where text and bytes are plain; base64.cpp has the rules around them.
#pragma once

#include <cstddef>
#include <string_view>

#include "headrace/base64.hpp"
#include "simd_region.hpp"

#if HEADRACE_HAS_AVX2

namespace headrace::avx2 {

/// As decode_base64_start. False: it stopped only because a few characters near the end are not for
/// it.
bool decode_base64_blocks(std::string_view text, std::byte *out, Base64Start &start) noexcept;

/// Writes the characters of whole groups of three bytes, all but a few near the end; yields how
/// many bytes were taken.
std::size_t encode_base64_blocks(std::string_view bytes, char *out) noexcept;

} // namespace headrace::avx2

#endif
