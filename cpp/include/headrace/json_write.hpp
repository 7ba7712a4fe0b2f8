// The leaves of JSON text: strings and base64. Numbers are in number_format.hpp.
#pragma once

#include <string_view>

#include "headrace/byte_buffer.hpp"

namespace headrace {

/// Whether `text` is UTF-8 without surrogates (RFC 3629).
bool is_valid_utf8(std::string_view text) noexcept;

/// `text` between quotes: `"`, `\` and bytes below 0x20 escaped, all else as it is. Whether `text`
/// is UTF-8 is the caller's to know; if it is not, neither is what is written. Spec: tfserving-rest
/// section 12.
void write_json_string(std::string_view text, ByteBuffer &out);

/// As `write_json_string`, but every ill-formed part of `text` becomes U+FFFD, so that the result
/// is always valid.
void write_json_string_lossy(std::string_view text, ByteBuffer &out);

/// `bytes` in the standard alphabet, padded, without quotes.
void write_base64(std::string_view bytes, ByteBuffer &out);

} // namespace headrace
