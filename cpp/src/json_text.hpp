// The body as the decoder walks it. No function here or elsewhere reads at or behind `end`.
#pragma once

#include <cstdint>
#include <string_view>

namespace headrace {

struct Text {
  const char *begin;
  const char *end;

  std::uint64_t offset(const char *at) const noexcept {
    return static_cast<std::uint64_t>(at - begin);
  }
};

inline bool is_blank(char c) noexcept { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

inline const char *skip_blanks(const char *p, const char *end) noexcept {
  while (p != end && is_blank(*p))
    ++p;
  return p;
}

/// The byte at `p`, or NUL at the end: a NUL byte is the end of a document to RapidJSON too, and
/// nothing in the grammar accepts one.
inline char peek(const char *p, const char *end) noexcept { return p == end ? '\0' : *p; }

inline std::string_view between(const char *begin, const char *end) noexcept {
  return {begin, static_cast<std::size_t>(end - begin)};
}

} // namespace headrace
