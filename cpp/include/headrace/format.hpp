// The two layouts of a predict request, and of its response.
#pragma once

#include <cstdint>

namespace headrace {

enum class Format : std::uint8_t { kRow, kColumnar };

} // namespace headrace
