#include "headrace/utf8.hpp"

#include <simdjson.h>

namespace headrace {

bool is_valid_utf8(std::string_view text) noexcept {
  return simdjson::validate_utf8(text.data(), text.size());
}

const char *find_invalid_utf8(const char *p, const char *end) noexcept {
  const auto byte = [](const char *at) { return static_cast<unsigned char>(*at); };
  while (p != end) {
    const unsigned char lead = byte(p);
    if (lead < 0x80) {
      ++p;
      continue;
    }
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4)
      return p;
    const char *at = p + 1;
    for (int i = 0; i < more; ++i, ++at) {
      if (at == end || (byte(at) & 0xC0) != 0x80)
        return p;
      if (i == 0 && ((lead == 0xE0 && byte(at) < 0xA0) || (lead == 0xED && byte(at) > 0x9F) ||
                     (lead == 0xF0 && byte(at) < 0x90) || (lead == 0xF4 && byte(at) > 0x8F)))
        return p;
    }
    p = at;
  }
  return nullptr;
}

} // namespace headrace
