#include "base64_kernels.hpp"

#include <bit>
#include <cstdint>

#if HEADRACE_HAS_AVX2

HEADRACE_AVX2_BEGIN

namespace headrace::avx2 {

namespace {

constexpr std::size_t kCharacters = 32; // of a block, and its bytes
constexpr std::size_t kBytes = 24;

[[gnu::always_inline]] inline __m256i both_halves(__m128i half) noexcept {
  return _mm256_broadcastsi128_si256(half);
}

// What a character means follows from its upper and its lower four bits. A bit for each kind of
// upper half:
//
//   2: 1   "+-/"      4, 6: 4  all letters but the 0th    7: 16  "pqrstuvwxyz"
//   3: 2   "0" - "9"     5: 8  "PQRSTUVWXYZ" and "_"   other: 0  nothing
//
// `allowed` has, for each lower half, the bits of the kinds in which it is a character of the
// alphabets.
//
// A character's value is its code plus an offset. The offset's place in a table of 16 is the upper
// half where that decides it; those that end in 0xD and 0xF ("-", "/", "_" and the letters "MmOo")
// are moved to places of their own, by 6 and by 9.
//
// Tables are looked up by whole characters where the lower half is meant: the instruction passes
// over the bits between, and yields 0 for what is not ASCII.
struct Tables {
  __m256i kind;
  __m256i allowed;
  __m256i moved;
  __m256i offset;
};

[[gnu::always_inline]] inline Tables make_tables() noexcept {
  constexpr char kDigit = 2 + 4 + 8 + 16;
  return {
      both_halves(_mm_setr_epi8(0, 0, 1, 2, 4, 8, 4, 16, 0, 0, 0, 0, 0, 0, 0, 0)),
      both_halves(_mm_setr_epi8(2 + 8 + 16, kDigit, kDigit, kDigit, kDigit, kDigit, kDigit, kDigit,
                                kDigit, kDigit, 4 + 8 + 16, 1 + 4, 4, 1 + 4, 4, 1 + 4 + 8)),
      both_halves(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 9)),
      both_halves(_mm_setr_epi8(0, 0, 62 - '+', 52 - '0', -'A', -'A', 26 - 'a', 26 - 'a', 62 - '-',
                                0, -'A', 63 - '/', 26 - 'a', -'A', 63 - '_', 26 - 'a'))};
}

// Decodes 32 characters to 24 bytes; four more are written. Yields bytes that are 0 for characters
// which are none of the alphabets.
[[gnu::always_inline]] inline __m256i decode_block(const char *text, std::byte *out,
                                                   const Tables &tables) noexcept {
  const __m256i block = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(text));
  const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(block, 4), _mm256_set1_epi8(0x0F));
  const __m256i good = _mm256_and_si256(_mm256_shuffle_epi8(tables.kind, upper),
                                        _mm256_shuffle_epi8(tables.allowed, block));
  const __m256i place = _mm256_add_epi8(upper, _mm256_shuffle_epi8(tables.moved, block));
  const __m256i values = _mm256_add_epi8(block, _mm256_shuffle_epi8(tables.offset, place));
  // a, b, c, d: first a * 64 + b and c * 64 + d, then the 24 bits of all four.
  const __m256i pairs = _mm256_maddubs_epi16(values, _mm256_set1_epi32(0x01400140));
  const __m256i groups = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00011000));
  const __m256i bytes = _mm256_shuffle_epi8(
      groups, both_halves(_mm_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1)));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(out), _mm256_castsi256_si128(bytes));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(out + 12), _mm256_extracti128_si256(bytes, 1));
  return good;
}

// A bit for each byte that is 0.
[[gnu::always_inline]] inline unsigned zeros_of(__m256i bytes) noexcept {
  return static_cast<unsigned>(
      _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256())));
}

} // namespace

bool decode_base64_blocks(std::string_view text, std::byte *out, Base64Start &start) noexcept {
  constexpr std::size_t kAtOnce = 4 * kCharacters;
  // Bytes are owed to four characters more, since so many more are written.
  constexpr std::size_t kMore = 8;
  const Tables tables = make_tables();
  const char *p = text.data();
  const char *const end = p + text.size();
  std::byte *to = out;
  for (; end - p >= static_cast<std::ptrdiff_t>(kAtOnce + kMore);
       p += kAtOnce, to += kAtOnce / 4 * 3) {
    __m256i good =
        decode_block(p, to, tables); // in order: each overwrites what the last wrote more
    for (std::size_t i = 1; i < 4; ++i)
      good = _mm256_min_epu8(good, decode_block(p + i * kCharacters, to + i * kBytes, tables));
    if (zeros_of(good) != 0)
      break;
  }
  bool stopped = false;
  for (; end - p >= static_cast<std::ptrdiff_t>(kCharacters + kMore);
       p += kCharacters, to += kBytes) {
    if (const unsigned bad = zeros_of(decode_block(p, to, tables)); bad != 0) {
      const int groups = std::countr_zero(bad) / 4;
      p += 4 * groups;
      to += 3 * groups;
      stopped = true;
      break;
    }
  }
  start = {static_cast<std::size_t>(p - text.data()), static_cast<std::size_t>(to - out)};
  return stopped;
}

std::size_t encode_base64_blocks(std::string_view bytes, char *out) noexcept {
  // Twelve bytes to each half: of each three, the bytes 1 0 2 1 hold all values where two
  // multiplications bring them down to the bottom of a byte.
  const __m256i spread =
      both_halves(_mm_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10));
  // Offset of a value's character, at 0 for 26 to 51, at 1 to 10 for the digits, 11 and 12 for "+"
  // and "/", 13 for 0 to 25.
  const __m256i offset = both_halves(_mm_setr_epi8('a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
                                                   '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
                                                   '0' - 52, '+' - 62, '/' - 63, 'A', 0, 0));
  std::size_t i = 0;
  for (; bytes.size() - i >= kBytes + 4; i += kBytes, out += kCharacters) {
    const auto *const low = reinterpret_cast<const __m128i *>(&bytes[i]);
    const auto *const high = reinterpret_cast<const __m128i *>(&bytes[i + 12]);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                                 _mm_loadu_si128(high), 1);
    const __m256i groups = _mm256_shuffle_epi8(both, spread);
    const __m256i first_third = _mm256_mulhi_epu16(
        _mm256_and_si256(groups, _mm256_set1_epi32(0x0FC0FC00)), _mm256_set1_epi32(0x04000040));
    const __m256i second_fourth = _mm256_mullo_epi16(
        _mm256_and_si256(groups, _mm256_set1_epi32(0x003F03F0)), _mm256_set1_epi32(0x01000010));
    const __m256i values = _mm256_or_si256(first_third, second_fourth);
    const __m256i upper_case = _mm256_cmpgt_epi8(_mm256_set1_epi8(26), values);
    const __m256i place = _mm256_or_si256(_mm256_subs_epu8(values, _mm256_set1_epi8(51)),
                                          _mm256_and_si256(upper_case, _mm256_set1_epi8(13)));
    const __m256i text = _mm256_add_epi8(values, _mm256_shuffle_epi8(offset, place));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(out), text);
  }
  return i;
}

} // namespace headrace::avx2

HEADRACE_AVX2_END

#endif
