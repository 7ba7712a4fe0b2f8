// What strings mean: their bytes without escapes, and whether they are UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "json_syntax.hpp"

namespace headrace {

/// Room that `unescape` may use beyond the bytes it yields: simdjson writes whole registers.
inline constexpr std::size_t kUnescapeSlack = 64;

/// Writes the string's bytes to `out`, which has room for token.raw().size() + kUnescapeSlack, and
/// yields how many. `text_end` is where readable memory ends.
std::size_t unescape(const StringToken &token, const char *text_end, std::byte *out) noexcept;
std::string unescape(const StringToken &token, const char *text_end);

/// The string's bytes: a view of the text itself where nothing is escaped, else of `storage`.
std::string_view plain_text(const StringToken &token, const char *text_end, std::string &storage);

/// Does the string, unescaped, equal `plain`?
bool equals(const StringToken &token, std::string_view plain, const char *text_end);

/// Reads a b64 object: exactly one member, named `b64`, with a string. Yields the text after it;
/// nullptr if the object at `p` is another one (or malformed, which is judged elsewhere).
const char *scan_b64_object(const char *p, const char *end, StringToken &value);
/// The same in two steps. Where the string's text begins, or nullptr if the object at `p` does not
/// begin like a b64 object; then the rest from a place in the text on, which is no part of an
/// escape. `rest`: the text from there on.
const char *begin_b64_object(const char *p, const char *end);
const char *end_b64_object(const char *p, const char *end, StringToken &rest);

/// Place in the raw text of the byte that is `index`-th after unescaping.
const char *raw_position(const StringToken &token, std::size_t index) noexcept;

} // namespace headrace
