// Base64 to bytes. Spec: RFC 4648 §4 and §5; TensorFlow Serving REST, encoding binary values.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

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
Base64Result decode_base64(std::string_view text, std::span<std::byte> out) noexcept;

} // namespace headrace
