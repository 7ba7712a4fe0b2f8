// UTF-8 without surrogates, as RFC 3629 has it: the only text that a JSON string may hold.
#pragma once

#include <string_view>

namespace headrace {

bool is_valid_utf8(std::string_view text) noexcept;

/// First byte that no valid UTF-8 can have at its place, or nullptr.
const char *find_invalid_utf8(const char *p, const char *end) noexcept;

} // namespace headrace
