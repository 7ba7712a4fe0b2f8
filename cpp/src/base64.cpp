#include "headrace/base64.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace headrace {

namespace {

constexpr std::uint32_t kInvalid = std::uint32_t{1} << 31;

using Table = std::array<std::uint32_t, 256>;

// Value of each character, moved to its place among the 24 bits of a group; kInvalid elsewhere.
constexpr Table make_table(int shift) {
  Table table{};
  table.fill(kInvalid);
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint32_t>(i) << shift;
  table['-'] = std::uint32_t{62} << shift;
  table['_'] = std::uint32_t{63} << shift;
  return table;
}

constexpr std::array<Table, 4> kTables = {make_table(18), make_table(12), make_table(6),
                                          make_table(0)};

bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_padding(char c) noexcept { return c == '=' || c == '.'; }

// Three bytes of a group; a fourth that is overwritten or never looked at lets it be one store.
void store3(std::byte *out, std::uint32_t group) noexcept {
  std::uint32_t word = group << 8;
  if constexpr (std::endian::native == std::endian::little)
    word = __builtin_bswap32(word);
  std::memcpy(out, &word, 4);
}

// After the last data character: blanks, and either no padding or as much as is due.
std::size_t find_bad_tail(std::string_view text, std::size_t i, std::size_t due) noexcept {
  std::size_t padding = 0;
  for (; i < text.size(); ++i) {
    if (is_padding(text[i]))
      ++padding;
    else if (!is_space(text[i]))
      return i;
    if (padding > due)
      return i;
  }
  return padding == 0 || padding == due ? std::string_view::npos : text.size();
}

} // namespace

Base64Result decode_base64(std::string_view text, std::span<std::byte> out) noexcept {
  std::size_t i = 0;
  std::size_t written = 0;
  std::uint32_t group = 0;
  unsigned held = 0; // characters in `group`
  const auto at = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  while (i < text.size()) {
    if (held == 0 && text.size() - i >= 4) {
      const std::uint32_t four =
          kTables[0][at(i)] | kTables[1][at(i + 1)] | kTables[2][at(i + 2)] | kTables[3][at(i + 3)];
      if ((four & kInvalid) == 0) {
        store3(&out[written], four);
        written += 3;
        i += 4;
        continue;
      }
    }
    if (is_space(text[i])) {
      ++i;
      continue;
    }
    const std::uint32_t value = kTables[3][at(i)];
    if (value == kInvalid)
      break;
    group = (group << 6) | value;
    ++i;
    if (++held == 4) {
      store3(&out[written], group);
      written += 3;
      held = 0;
      group = 0;
    }
  }
  if (held == 1) // six bits make no byte
    return {written, i};
  if (held >= 2)
    out[written++] = static_cast<std::byte>(group >> (held == 2 ? 4 : 10));
  if (held == 3)
    out[written++] = static_cast<std::byte>(group >> 2);
  constexpr std::size_t kDue[] = {0, 0, 2, 1};
  return {written, find_bad_tail(text, i, kDue[held])};
}

} // namespace headrace
