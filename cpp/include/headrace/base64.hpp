// Base64 to bytes and back. Spec: RFC 4648 §4 and §5; TensorFlow Serving REST, encoding binary
// values.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "headrace/simd.hpp"

namespace headrace {

struct Base64Result {
  std::size_t bytes = 0; ///< written
  /// First character to blame; text.size() where the text ends too early; npos: none.
  std::size_t bad = std::string_view::npos;

  explicit operator bool() const noexcept { return bad == std::string_view::npos; }
};

/// Room that decode_base64 needs for a text of that many characters.
constexpr std::size_t base64_bound(std::size_t characters) noexcept {
  return characters / 4 * 3 + 3;
}

/// Takes the standard and the URL-safe alphabet, also mixed. Padding may be left out but is exact
/// where it stands (`.` counts as padding, as in TensorFlow Serving); ASCII white space is passed
/// over anywhere; spare low bits of the last character are ignored.
/// Precondition: out.size() >= base64_bound(text.size()).
Base64Result decode_base64(std::string_view text, std::span<std::byte> out,
                           Simd level = active_simd()) noexcept;

/// How much of the start of a text is decoded: whole groups of four characters.
struct Base64Start {
  std::size_t characters = 0;
  std::size_t bytes = 0;
};

/// Decodes up to the first group of four that holds anything but characters of the alphabets, for
/// callers who do not know yet where the text ends. What is left means the same to decode_base64 as
/// it would behind the start. Precondition: out.size() >= base64_bound(text.size()).
Base64Start decode_base64_start(std::string_view text, std::span<std::byte> out,
                                Simd level = active_simd()) noexcept;

/// Characters that encode_base64 writes for so many bytes.
constexpr std::size_t base64_size(std::size_t bytes) noexcept { return (bytes + 2) / 3 * 4; }

/// Writes base64_size(bytes.size()) characters of the standard alphabet, padded; yields their end.
char *encode_base64(std::string_view bytes, char *out, Simd level = active_simd()) noexcept;

} // namespace headrace
