#include "headrace/json_write.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "headrace/base64.hpp"
#include "headrace/utf8.hpp"

namespace headrace {

namespace {

constexpr std::uint64_t kEachByte = 0x0101010101010101;
constexpr std::uint64_t kHighBits = 0x8080808080808080;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD"; // U+FFFD

/// What stands after the backslash; 0: nothing is escaped; 'u': four hex digits follow.
constexpr auto kEscapes = [] {
  std::array<char, 256> table{};
  for (std::size_t c = 0; c < 0x20; ++c)
    table[c] = 'u';
  table['\b'] = 'b';
  table['\f'] = 'f';
  table['\n'] = 'n';
  table['\r'] = 'r';
  table['\t'] = 't';
  table['"'] = '"';
  table['\\'] = '\\';
  return table;
}();

/// High bit of each byte of `word` that is below 0x20, a quote or a backslash. A borrow may mark a
/// byte above such a one too, never one below it: so the lowest mark, which is the first in memory,
/// is right.
std::uint64_t mark_escaped(std::uint64_t word) noexcept {
  const std::uint64_t quotes = word ^ (kEachByte * '"');
  const std::uint64_t backslashes = word ^ (kEachByte * '\\');
  const std::uint64_t marks = ((word - kEachByte * 0x20) & ~word) |
                              ((quotes - kEachByte) & ~quotes) |
                              ((backslashes - kEachByte) & ~backslashes);
  return marks & kHighBits;
}

/// Bytes of `text` before the first that is escaped.
std::size_t count_plain(std::string_view text) noexcept {
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if (const std::uint64_t marks = mark_escaped(word); marks != 0)
      return i + static_cast<std::size_t>(std::countr_zero(marks)) / 8;
  }
  while (i < text.size() && kEscapes[static_cast<unsigned char>(text[i])] == 0)
    ++i;
  return i;
}

void append_escape(char c, ByteBuffer &out) {
  const auto byte = static_cast<unsigned char>(c);
  char *end = out.reserve(6);
  *end++ = '\\';
  *end++ = kEscapes[byte];
  if (kEscapes[byte] == 'u') {
    std::memcpy(end, "00", 2);
    end[2] = static_cast<char>('0' + byte / 16);
    end[3] = "0123456789ABCDEF"[byte % 16];
    end += 4;
  }
  out.commit_to(end);
}

void append_escaped(std::string_view text, ByteBuffer &out) {
  while (true) {
    const std::size_t plain = count_plain(text);
    out.append(text.substr(0, plain));
    if (plain == text.size())
      return;
    append_escape(text[plain], out);
    text.remove_prefix(plain + 1);
  }
}

/// Bytes that a well-formed character with this first byte takes; 0: none begins so.
std::size_t utf8_length(unsigned char first) noexcept {
  if (first < 0x80)
    return 1;
  if (first < 0xC2 || first > 0xF4)
    return 0;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/// Whether `byte` may stand second after `first`. The tables' odd rows (Unicode, table 3-7) shut
/// out overlong forms, surrogates, and what lies beyond U+10FFFF.
bool is_second_byte(unsigned char first, unsigned char byte) noexcept {
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return byte >= low && byte <= high;
}

/// How much of the start of `text` is one character, or else the longest start of one (at least one
/// byte).
std::size_t take_character(std::string_view text, bool &well_formed) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = utf8_length(byte(0));
  std::size_t i = 1;
  while (i < length && i < text.size() &&
         (i == 1 ? is_second_byte(byte(0), byte(1)) : (byte(i) & 0xC0) == 0x80))
    ++i;
  well_formed = length == i;
  return i;
}

} // namespace

void write_json_string(std::string_view text, ByteBuffer &out) {
  out.reserve(text.size() + 2);
  out.append('"');
  append_escaped(text, out);
  out.append('"');
}

void write_json_string_lossy(std::string_view text, ByteBuffer &out) {
  if (is_valid_utf8(text))
    return write_json_string(text, out);
  out.append('"');
  while (!text.empty()) {
    bool well_formed = false;
    const std::size_t length = take_character(text, well_formed);
    append_escaped(well_formed ? text.substr(0, length) : kReplacement, out);
    text.remove_prefix(length);
  }
  out.append('"');
}

void write_base64(std::string_view bytes, ByteBuffer &out) {
  out.commit_to(encode_base64(bytes, out.reserve(base64_size(bytes.size()))));
}

} // namespace headrace
