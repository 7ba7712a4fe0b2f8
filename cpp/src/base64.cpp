#include "headrace/base64.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base64_kernels.hpp"

namespace headrace {

namespace {

constexpr std::uint32_t kInvalid = std::uint32_t{1} << 31;

using Table = std::array<std::uint32_t, 256>;

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Value of each character, moved to its place among the 24 bits of a group; kInvalid elsewhere.
constexpr Table make_table(int shift) {
  Table table{};
  table.fill(kInvalid);
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

/// Two characters for each twelve bits: half the look-ups of one by one, in 8 KiB.
constexpr auto kPairs = [] {
  std::array<std::array<char, 2>, 4096> table{};
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = {kAlphabet[i / 64], kAlphabet[i % 64]};
  return table;
}();

void write_triple(std::uint32_t bits, char *out) noexcept {
  std::memcpy(out, kPairs[bits >> 12].data(), 2);
  std::memcpy(out + 2, kPairs[bits & 0xFFF].data(), 2);
}

} // namespace

Base64Start decode_base64_start(std::string_view text, std::span<std::byte> out,
                                [[maybe_unused]] Simd level) noexcept {
  Base64Start start;
#if HEADRACE_HAS_AVX2
  if (level == Simd::kAvx2 && avx2::decode_base64_blocks(text, out.data(), start))
    return start;
#endif
  const auto *p = reinterpret_cast<const unsigned char *>(text.data()) + start.characters;
  for (std::size_t left = text.size() - start.characters; left >= 4; left -= 4, p += 4) {
    const std::uint32_t four =
        kTables[0][p[0]] | kTables[1][p[1]] | kTables[2][p[2]] | kTables[3][p[3]];
    if ((four & kInvalid) != 0)
      break;
    store3(&out[start.bytes], four);
    start.bytes += 3;
    start.characters += 4;
  }
  return start;
}

Base64Result decode_base64(std::string_view text, std::span<std::byte> out, Simd level) noexcept {
  std::size_t i = 0;
  std::size_t written = 0;
  std::uint32_t group = 0;
  unsigned held = 0; // characters in `group`
  while (i < text.size()) {
    if (held == 0) {
      const Base64Start start = decode_base64_start(text.substr(i), out.subspan(written), level);
      i += start.characters;
      written += start.bytes;
      if (i == text.size())
        break;
    }
    if (is_space(text[i])) {
      ++i;
      continue;
    }
    const std::uint32_t value = kTables[3][static_cast<unsigned char>(text[i])];
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

char *encode_base64(std::string_view bytes, char *out, [[maybe_unused]] Simd level) noexcept {
#if HEADRACE_HAS_AVX2
  if (level == Simd::kAvx2) {
    const std::size_t taken = avx2::encode_base64_blocks(bytes, out);
    out += taken / 3 * 4;
    bytes.remove_prefix(taken);
  }
#endif
  const auto *in = reinterpret_cast<const unsigned char *>(bytes.data());
  std::size_t left = bytes.size();
  for (; left >= 3; left -= 3, in += 3, out += 4)
    write_triple(static_cast<std::uint32_t>(in[0] << 16 | in[1] << 8 | in[2]), out);
  if (left == 0)
    return out;
  write_triple(static_cast<std::uint32_t>(in[0] << 16 | (left == 2 ? in[1] << 8 : 0)), out);
  out[3] = '=';
  if (left == 1)
    out[2] = '=';
  return out + 4;
}

} // namespace headrace
