#include "json_string.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include <simdjson.h>

namespace headrace {

namespace {

std::size_t put_utf8(std::uint32_t code, char *out) noexcept {
  if (code < 0x80) {
    out[0] = static_cast<char>(code);
    return 1;
  }
  if (code < 0x800) {
    out[0] = static_cast<char>(0xC0 | (code >> 6));
    out[1] = static_cast<char>(0x80 | (code & 0x3F));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = static_cast<char>(0xE0 | (code >> 12));
    out[1] = static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out[2] = static_cast<char>(0x80 | (code & 0x3F));
    return 3;
  }
  out[0] = static_cast<char>(0xF0 | (code >> 18));
  out[1] = static_cast<char>(0x80 | ((code >> 12) & 0x3F));
  out[2] = static_cast<char>(0x80 | ((code >> 6) & 0x3F));
  out[3] = static_cast<char>(0x80 | (code & 0x3F));
  return 4;
}

std::uint32_t hex4(const char *p) noexcept {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const auto c = static_cast<unsigned char>(p[i]);
    value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10U);
  }
  return value;
}

// One escape at `p`, known to be well formed: its bytes and the text after it.
const char *take_escape(const char *p, char *out, std::size_t &size) noexcept {
  const char kind = p[1];
  if (kind != 'u') {
    constexpr std::string_view kKinds = "bfnrt";
    constexpr std::string_view kBytes = "\b\f\n\r\t";
    const std::size_t i = kKinds.find(kind);
    *out = i == std::string_view::npos ? kind : kBytes[i];
    size = 1;
    return p + 2;
  }
  const std::uint32_t unit = hex4(p + 2);
  if (unit < 0xD800 || unit > 0xDFFF) {
    size = put_utf8(unit, out);
    return p + 6;
  }
  size = put_utf8(0x10000 + ((unit - 0xD800) << 10) + (hex4(p + 8) - 0xDC00), out);
  return p + 12;
}

// The portable way, for strings so near to the end of the body that simdjson's whole registers
// would read behind it.
std::size_t unescape_scalar(const StringToken &token, char *out) noexcept {
  const char *const first = out;
  for (const char *p = token.begin; p != token.end;) {
    if (*p != '\\') {
      *out++ = *p++;
      continue;
    }
    std::size_t size = 0;
    p = take_escape(p, out, size);
    out += size;
  }
  return static_cast<std::size_t>(out - first);
}

// simdjson's string parser of the best kernel for this processor. Its parse_string keeps no state
// in the object, so that one serves all threads.
simdjson::internal::dom_parser_implementation *string_parser() noexcept {
  static const std::unique_ptr<simdjson::internal::dom_parser_implementation> parser = [] {
    std::unique_ptr<simdjson::internal::dom_parser_implementation> made;
    const auto error =
        simdjson::get_active_implementation()->create_dom_parser_implementation(0, 0, made);
    return error == simdjson::SUCCESS ? std::move(made) : nullptr;
  }();
  return parser.get();
}

} // namespace

std::size_t unescape(const StringToken &token, const char *text_end, std::byte *out) noexcept {
  if (!token.escaped) {
    if (token.begin != token.end)
      std::memcpy(out, token.begin, token.raw().size());
    return token.raw().size();
  }
  if (text_end - token.end >= static_cast<std::ptrdiff_t>(simdjson::SIMDJSON_PADDING))
    if (auto *parser = string_parser(); parser != nullptr) {
      auto *const target = reinterpret_cast<std::uint8_t *>(out);
      const auto *source = reinterpret_cast<const std::uint8_t *>(token.begin);
      if (const std::uint8_t *last = parser->parse_string(source, target, false); last != nullptr)
        return static_cast<std::size_t>(last - target);
    }
  return unescape_scalar(token, reinterpret_cast<char *>(out));
}

std::string unescape(const StringToken &token, const char *text_end) {
  std::string bytes(token.raw().size() + kUnescapeSlack, '\0');
  bytes.resize(unescape(token, text_end, reinterpret_cast<std::byte *>(bytes.data())));
  return bytes;
}

std::string_view plain_text(const StringToken &token, const char *text_end, std::string &storage) {
  if (!token.escaped)
    return token.raw();
  storage = unescape(token, text_end);
  return storage;
}

bool equals(const StringToken &token, std::string_view plain, const char *text_end) {
  if (!token.escaped)
    return token.raw() == plain;
  // An escape takes at most six bytes for one; longer text needs no unescaping to differ.
  return token.raw().size() <= 6 * plain.size() && unescape(token, text_end) == plain;
}

const char *begin_b64_object(const char *p, const char *end) {
  constexpr std::string_view kUsual = "{\"b64\":";
  if (between(p, end).starts_with(kUsual)) {
    p += kUsual.size();
  } else {
    SyntaxError ignored;
    StringToken name;
    p = scan_name(skip_blanks(p + 1, end), end, name, ignored);
    if (p == nullptr || !equals(name, "b64", end))
      return nullptr;
  }
  p = skip_blanks(p, end);
  return peek(p, end) == '"' ? p + 1 : nullptr;
}

const char *end_b64_object(const char *p, const char *end, StringToken &rest) {
  SyntaxError ignored;
  p = scan_string(p - 1, end, rest, ignored);
  if (p == nullptr)
    return nullptr;
  p = skip_blanks(p, end);
  return peek(p, end) == '}' ? p + 1 : nullptr;
}

const char *scan_b64_object(const char *p, const char *end, StringToken &value) {
  p = begin_b64_object(p, end);
  return p == nullptr ? nullptr : end_b64_object(p, end, value);
}

const char *raw_position(const StringToken &token, std::size_t index) noexcept {
  const char *p = token.begin;
  std::array<char, 4> scratch{};
  while (p != token.end && index > 0) {
    std::size_t size = 1;
    const char *const next = *p == '\\' ? take_escape(p, scratch.data(), size) : p + 1;
    if (size > index)
      break;
    index -= size;
    p = next;
  }
  return p;
}

} // namespace headrace
