#pragma once

#include <cstdint>

namespace headrace {

/// The two layouts of TF Serving's predict bodies: `instances`/`predictions`, and
/// `inputs`/`outputs`.
enum class Format : std::uint8_t { kRow, kColumnar };

} // namespace headrace
