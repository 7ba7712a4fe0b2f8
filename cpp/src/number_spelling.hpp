// The spelling of numbers, inline for the loops that write many. The rule is in
// headrace/number_format.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shortest_decimal.hpp"

namespace headrace::spelling {

static_assert(std::endian::native == std::endian::little,
              "digits are laid out as little-endian words");

inline constexpr std::uint64_t kAsciiZeros = 0x3030303030303030;
inline constexpr std::uint64_t k1e8 = 100'000'000;

inline constexpr auto kSmallPowersOfTen = [] {
  std::array<std::uint64_t, 20> powers{};
  std::uint64_t power = 1;
  for (std::uint64_t &p : powers) {
    p = power;
    power *= 10;
  }
  return powers;
}();

/// Decimal digits of `n`; 1 for zero.
inline int count_digits(std::uint64_t n) noexcept {
  n |= 1; // changes the number of digits of zero only
  const int guess = ((64 - std::countl_zero(n)) * 1233) >> 12; // log10(2) is about 1233 / 4096
  return guess + (n >= kSmallPowersOfTen[static_cast<std::size_t>(guess)] ? 1 : 0);
}

/// The eight digits of n < 1e8, zeros in front, one a byte; the first in the lowest byte, so first
/// in memory.
inline std::uint64_t eight_digits(std::uint64_t n) noexcept {
  // Each step splits all lanes at once: eight digits to two by four, to four by two, to eight by
  // one. The products are reciprocals of 100 and 10 that are exact for lanes of four and of two
  // digits.
  const std::uint64_t fours = (n / 10'000) | ((n % 10'000) << 32);
  const std::uint64_t hundreds = ((fours * 10'486) >> 20) & 0x0000'007F'0000'007F;
  const std::uint64_t twos = hundreds | ((fours - hundreds * 100) << 16);
  const std::uint64_t tens = ((twos * 103) >> 10) & 0x000F'000F'000F'000F;
  return tens | ((twos - tens * 10) << 8);
}

inline void store(char *out, std::uint64_t word) noexcept { std::memcpy(out, &word, sizeof word); }

/// Digits of a decimal, first in `lead`, the other 8 * kWords in words of eight.
template <std::size_t kWords> struct Digits {
  static_assert(kWords == 1 || kWords == 2);

  unsigned lead;
  std::array<std::uint64_t, kWords> words;
  int count; ///< without trailing zeros; at least 1

  /// Precondition: 10^(8 * kWords) <= n < 10^(8 * kWords + 1).
  explicit Digits(std::uint64_t n) noexcept {
    for (std::size_t i = kWords; i-- > 0; n /= k1e8)
      words[i] = eight_digits(n % k1e8);
    lead = static_cast<unsigned>(n);
    count = 9 - std::countl_zero(words[0]) / 8;
    if (kWords == 2 && words[kWords - 1] != 0)
      count = 17 - std::countl_zero(words[kWords - 1]) / 8;
  }
  /// Those after the first, zeros included: 8 * kWords bytes.
  void store_tail(char *out) const noexcept {
    for (std::size_t i = 0; i < kWords; ++i)
      store(out + 8 * i, words[i] | kAsciiZeros);
  }
  char lead_char() const noexcept { return static_cast<char>('0' + lead); }
};

/// "0.00012" or "1.2": -4 <= exponent <= 0. Without a branch, since which of them it is changes
/// from value to value.
template <std::size_t kWords>
char *write_fraction(const Digits<kWords> &digits, int exponent, char *out) noexcept {
  std::memcpy(out, "0.000000", 8);
  const int whole = exponent == 0 ? 1 : 0;
  const int place = 1 - exponent - whole; // of the first digit: 0, or from 2 on
  out[place] = digits.lead_char();
  digits.store_tail(out + place + 1 + whole);
  return out + std::max(place + whole + digits.count, 3);
}

/// "123.45": the point stands after exponent + 1 digits, 1 <= exponent < 16.
template <std::size_t kWords>
char *write_with_point(const Digits<kWords> &digits, int exponent, char *out) noexcept {
  char text[33];
  text[0] = digits.lead_char();
  digits.store_tail(text + 1);
  for (std::size_t i = kWords; i < 4;
       ++i) // whole numbers may be longer than their significant digits
    store(text + 1 + 8 * i, kAsciiZeros);
  std::memcpy(out, text, 16);
  std::memcpy(out + exponent + 2, text + exponent + 1, 16);
  out[exponent + 1] = '.';
  return out + 1 + std::max(digits.count, exponent + 2);
}

/// "1.5e-07"
template <std::size_t kWords>
char *write_with_exponent(const Digits<kWords> &digits, int exponent, char *out) noexcept {
  out[0] = digits.lead_char();
  out[1] = '.';
  digits.store_tail(out + 2);
  out += digits.count == 1 ? 1 : digits.count + 1;
  *out++ = 'e';
  *out++ = exponent < 0 ? '-' : '+';
  auto magnitude = static_cast<unsigned>(exponent < 0 ? -exponent : exponent);
  if (magnitude >= 100) {
    *out++ = static_cast<char>('0' + magnitude / 100);
    magnitude %= 100;
  }
  *out++ = static_cast<char>('0' + magnitude / 10);
  *out++ = static_cast<char>('0' + magnitude % 10);
  return out;
}

/// A positive decimal of at most 8 * kWords + 1 digits, spelled by the rule in the header.
template <std::size_t kWords> char *write_decimal(ShortestDecimal decimal, char *out) noexcept {
  constexpr int kDigits = 8 * static_cast<int>(kWords) + 1;
  const int length = count_digits(decimal.digits);
  const Digits<kWords> digits(decimal.digits *
                              kSmallPowersOfTen[static_cast<std::size_t>(kDigits - length)]);
  const int exponent = decimal.exponent + length - 1; // of the first digit
  if (exponent < -4 || exponent >= 16)
    return write_with_exponent(digits, exponent, out);
  if (exponent > 0)
    return write_with_point(digits, exponent, out);
  return write_fraction(digits, exponent, out);
}

/// A binary float as c * 2^q. The layouts differ only in the widths of their fields.
template <class Bits, int kFractionBits> struct Binary {
  static constexpr int kExponentBits = 8 * static_cast<int>(sizeof(Bits)) - 1 - kFractionBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1 + kFractionBits;
  using Word = std::conditional_t<sizeof(Bits) == 8, std::uint64_t, std::uint32_t>;

  bool negative;
  bool lower_is_closer;
  int q;
  Word c; ///< 0 for the zeros

  explicit Binary(Bits bits) noexcept : negative(bits >> (8 * sizeof(Bits) - 1) != 0) {
    const Word fraction = Word{bits} & ((Word{1} << kFractionBits) - 1);
    const int exponent =
        static_cast<int>((Word{bits} >> kFractionBits) & ((1U << kExponentBits) - 1));
    c = exponent == 0 ? fraction : fraction | (Word{1} << kFractionBits);
    q = (exponent == 0 ? 1 : exponent) - kBias;
    lower_is_closer = fraction == 0 && exponent > 1;
  }
  /// Whether it is a whole number below 2^(kFractionBits + 1), which is its own shortest decimal.
  bool is_small_whole() const noexcept {
    return q <= 0 && q >= -kFractionBits && (c & ((Word{1} << -q) - 1)) == 0;
  }
};

template <std::size_t kWords, class Bits, int kFractionBits>
char *write_binary(Binary<Bits, kFractionBits> value, char *out) noexcept {
  *out = '-';
  out += value.negative ? 1 : 0;
  if (value.c == 0) {
    std::memcpy(out, "0.0", 3);
    return out + 3;
  }
  if (value.is_small_whole())
    return write_decimal<kWords>({value.c >> -value.q, 0}, out);
  return write_decimal<kWords>(shortest_decimal(value.c, value.q, value.lower_is_closer), out);
}

using Float16 = Binary<std::uint16_t, 10>;
using Bfloat16 = Binary<std::uint16_t, 7>;
using Float32 = Binary<std::uint32_t, 23>;
using Float64 = Binary<std::uint64_t, 52>;

/// Any float but NaN and the infinities.
inline char *write_float(Float16 value, char *out) noexcept { return write_binary<1>(value, out); }
inline char *write_float(Bfloat16 value, char *out) noexcept { return write_binary<1>(value, out); }
inline char *write_float(Float32 value, char *out) noexcept { return write_binary<1>(value, out); }
inline char *write_float(Float64 value, char *out) noexcept { return write_binary<2>(value, out); }

/// Any natural number.
inline char *write_unsigned(std::uint64_t value, char *out) noexcept {
  if (value >= k1e8) {
    out = write_unsigned(value / k1e8, out);
    store(out, eight_digits(value % k1e8) | kAsciiZeros);
    return out + 8;
  }
  const int length = count_digits(value);
  store(out, (eight_digits(value) | kAsciiZeros) >> (8 * (8 - length)));
  return out + length;
}

inline char *write_signed(std::int64_t value, char *out) noexcept {
  *out = '-';
  out += value < 0 ? 1 : 0;
  const auto magnitude = static_cast<std::uint64_t>(value);
  return write_unsigned(value < 0 ? 0 - magnitude : magnitude, out);
}

/// The numbers of one byte, each as its text and its length.
struct ByteText {
  std::array<char, 3> text;
  std::uint8_t length;
};

inline constexpr auto kByteTexts = [] {
  std::array<ByteText, 256> table{};
  for (std::size_t n = 0; n < table.size(); ++n) {
    ByteText &entry = table[n];
    if (n >= 100)
      entry.text[entry.length++] = static_cast<char>('0' + n / 100);
    if (n >= 10)
      entry.text[entry.length++] = static_cast<char>('0' + n / 10 % 10);
    entry.text[entry.length++] = static_cast<char>('0' + n % 10);
  }
  return table;
}();

inline char *write_byte(std::uint8_t value, char *out) noexcept {
  const ByteText &entry = kByteTexts[value];
  std::memcpy(out, &entry, sizeof entry); // its length too, which the next text overwrites
  return out + entry.length;
}

} // namespace headrace::spelling
