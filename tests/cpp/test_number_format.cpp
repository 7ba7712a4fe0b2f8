#include <boost/test/unit_test.hpp>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <system_error>

#include "headrace/number_format.hpp"

using namespace headrace;

namespace {

constexpr int kRandomValues = 2'000'000;

template <class Value, class Format> std::string text_of(Value value, Format format) {
  char text[kMaxNumberChars];
  return {text, format(value, text)};
}

std::string text_of(float value) { return text_of(value, format_float32); }
std::string text_of(double value) { return text_of(value, format_float64); }

/// The digits that count: no sign, point, exponent, zeros in front or behind.
std::string significant(std::string_view text) {
  std::string digits;
  for (const char c : text.substr(0, text.find('e')))
    if (c >= '0' && c <= '9' && (c != '0' || !digits.empty()))
      digits += c;
  return digits.substr(0, digits.find_last_not_of('0') + 1);
}

/// Whether `text` follows the spelling rule of number_format.hpp.
bool is_well_spelled(std::string_view text, double magnitude) {
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const std::size_t e = text.find('e');
  const std::string_view mantissa = text.substr(0, e);
  const std::size_t point = mantissa.find('.');
  if (plain)
    return e == text.npos && point != text.npos && point > 0 && point + 1 < text.size();
  if (e == text.npos || (text[e + 1] != '-' && text[e + 1] != '+') || text.size() - e < 4)
    return false;
  return point == text.npos || (point + 1 < e && text[e - 1] != '0');
}

/// Reads back to the same bits, with no more digits than the standard library's shortest, and the
/// same ones.
template <class Float> bool is_shortest(Float value) {
  const std::string text = text_of(value);
  Float read = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  char buffer[64];
  const std::string reference(
      buffer,
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr);
  const bool same_bits = read == value && std::signbit(read) == std::signbit(value);
  const bool right = error == std::errc() && end == text.data() + text.size() && same_bits &&
                     significant(text) == significant(reference) &&
                     is_well_spelled(text, std::abs(std::strtod(text.c_str(), nullptr)));
  if (!right)
    BOOST_ERROR(text << " against " << reference);
  return right;
}

/// A 16-bit float of the given fraction bits, as the double that it exactly is.
double to_double(unsigned bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>((bits & 0x7FFF) >> fraction_bits);
  const double fraction = bits & ((1U << fraction_bits) - 1);
  return exponent == 0
             ? std::ldexp(fraction, 1 - bias - fraction_bits)
             : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

/// Whether a decimal rounds to the value whose neighbours are `below` and `above`, ties to even.
bool rounds_to(double decimal, double below, double value, double above, bool even) {
  const double low = (below + value) / 2;
  const double high = (value + above) / 2;
  return (decimal > low && decimal < high) || (even && (decimal == low || decimal == high));
}

/// The fewest digits of any decimal that rounds to the value, by trying them.
int fewest_digits(double below, double value, double above, bool even) {
  for (int digits = 1;; ++digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*e", digits - 1, value);
    const int exponent =
        std::atoi(std::string(text).substr(std::string(text).find('e') + 1).c_str());
    const double nearest = std::atof(text);
    for (const int step : {0, -1, 1}) {
      std::snprintf(text, sizeof text, "%.*e", digits - 1,
                    nearest + step * std::pow(10.0, exponent - digits + 1));
      if (rounds_to(std::atof(text), below, value, above, even))
        return digits;
    }
  }
}

template <int kFractionBits, class Format> void check_all_16_bit_floats(Format format) {
  const unsigned infinity = 0x7FFFU & ~((1U << kFractionBits) - 1);
  for (unsigned bits = 1; bits < infinity; ++bits) {
    const double value = to_double(bits, kFractionBits);
    const double below = to_double(bits - 1, kFractionBits);
    const double above =
        bits + 1 == infinity ? 2 * value - below : to_double(bits + 1, kFractionBits);
    const std::string text = text_of(static_cast<std::uint16_t>(bits), format);
    const bool right = rounds_to(std::atof(text.c_str()), below, value, above, bits % 2 == 0) &&
                       static_cast<int>(significant(text).size()) ==
                           fewest_digits(below, value, above, bits % 2 == 0) &&
                       is_well_spelled(text, std::atof(text.c_str())) &&
                       text_of(static_cast<std::uint16_t>(bits | 0x8000), format) == "-" + text;
    if (!right)
      BOOST_ERROR(text << " of bits " << bits);
  }
  BOOST_TEST(text_of(std::uint16_t{0}, format) == "0.0");
  BOOST_TEST(text_of(std::uint16_t{0x8000}, format) == "-0.0");
}

} // namespace

BOOST_AUTO_TEST_CASE(random_bit_patterns_are_written_shortest) {
  std::mt19937_64 random(20'240'101); // NOLINT(bugprone-random-generator-seed): the same every time
  int wrong = 0;
  for (int i = 0; i < kRandomValues && wrong < 10; ++i) {
    const std::uint64_t bits = random();
    const auto single = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const auto twofold = std::bit_cast<double>(bits);
    wrong += std::isfinite(single) && !is_shortest(single) ? 1 : 0;
    wrong += std::isfinite(twofold) && !is_shortest(twofold) ? 1 : 0;
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(likely_values_are_written_shortest) {
  std::mt19937_64 random(7); // NOLINT(bugprone-random-generator-seed)
  std::uniform_real_distribution<double> unit;
  int wrong = 0;
  for (int i = 0; i < kRandomValues / 10 && wrong < 10; ++i) {
    const double uniform = unit(random);
    const double whole = static_cast<double>(random() >> (random() % 64));
    const double cents = std::round(uniform * 1e6) / 100;
    for (const double value : {uniform, -uniform * 1e-3, whole, cents, std::exp(-30 * uniform)})
      wrong += !is_shortest(value) + !is_shortest(static_cast<float>(value));
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(borders_of_every_binade_are_written_shortest) {
  for (std::uint64_t exponent = 0; exponent < 0x7FF; ++exponent)
    for (const std::int64_t step : {-1, 0, 1})
      if (const std::uint64_t bits = (exponent << 52) + static_cast<std::uint64_t>(step);
          exponent != 0 || step == 1)
        BOOST_TEST(is_shortest(std::bit_cast<double>(bits)));
  for (std::uint32_t exponent = 0; exponent < 0xFF; ++exponent)
    for (const std::int32_t step : {-1, 0, 1})
      if (const std::uint32_t bits = (exponent << 23) + static_cast<std::uint32_t>(step);
          exponent != 0 || step == 1)
        BOOST_TEST(is_shortest(std::bit_cast<float>(bits)));
}

BOOST_AUTO_TEST_CASE(powers_of_ten_and_their_neighbours_are_written_shortest) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int k = -323; k <= 308; ++k) {
    const double power = std::strtod(("1e" + std::to_string(k)).c_str(), nullptr);
    for (const double value : {power, std::nextafter(power, 0.0), std::nextafter(power, kInfinity)})
      if (value != 0)
        BOOST_TEST(is_shortest(value));
    const auto single = static_cast<float>(power);
    if (single != 0 && std::isfinite(single))
      BOOST_TEST((is_shortest(single) && is_shortest(std::nextafter(single, 0.5F))));
  }
}

BOOST_AUTO_TEST_CASE(all_half_floats_are_written_shortest) {
  check_all_16_bit_floats<10>(format_float16);
}

BOOST_AUTO_TEST_CASE(all_bfloat16_are_written_shortest) {
  check_all_16_bit_floats<7>(format_bfloat16);
}

BOOST_AUTO_TEST_CASE(spelling_of_floats) {
  BOOST_TEST(text_of(0.0F) == "0.0");
  BOOST_TEST(text_of(-0.0F) == "-0.0");
  BOOST_TEST(text_of(7.0F) == "7.0");
  BOOST_TEST(text_of(0.1F) == "0.1");
  BOOST_TEST(text_of(-2.5F) == "-2.5");
  BOOST_TEST(text_of(1.0F / 3) == "0.33333334");
  BOOST_TEST(text_of(16777216.0F) == "16777216.0");
  BOOST_TEST(text_of(1e15F) == "1000000000000000.0");
  BOOST_TEST(text_of(1e16F) == "1e+16");
  BOOST_TEST(text_of(1e-4F) == "0.0001");
  BOOST_TEST(text_of(1e-5F) == "1e-05");
  BOOST_TEST(text_of(std::numeric_limits<float>::max()) == "3.4028235e+38");
  BOOST_TEST(text_of(std::numeric_limits<float>::denorm_min()) == "1e-45");
  BOOST_TEST(text_of(1.0 / 3) == "0.3333333333333333");
  BOOST_TEST(text_of(0.30000000000000004) == "0.30000000000000004");
  BOOST_TEST(text_of(9007199254740993.0) == "9007199254740992.0");
  BOOST_TEST(text_of(1234567890123456.7) == "1234567890123456.8");
  BOOST_TEST(text_of(std::numeric_limits<double>::max()) == "1.7976931348623157e+308");
  BOOST_TEST(text_of(std::numeric_limits<double>::denorm_min()) == "5e-324");
}

BOOST_AUTO_TEST_CASE(spelling_of_tfserving) {
  const auto single = [](float value) { return text_of(value, format_float32_as_tfserving); };
  const auto twofold = [](double value) { return text_of(value, format_float64_as_tfserving); };
  BOOST_TEST(single(0.0F) == "0.0");
  BOOST_TEST(single(-0.0F) == "-0.0");
  BOOST_TEST(single(1.0F / 3) == "0.333333343");
  BOOST_TEST(single(100000.0F) == "100000.0");
  BOOST_TEST(single(1e6F) == "1e+06");
  BOOST_TEST(single(1000001.0F) == "1000001.0");
  BOOST_TEST(single(std::numeric_limits<float>::max()) == "3.40282347e+38");
  BOOST_TEST(single(std::numeric_limits<float>::denorm_min()) == "1.4013e-45");
  BOOST_TEST(twofold(1.0 / 3) == "0.33333333333333331");
  BOOST_TEST(twofold(1e22) == "1e+22");
  BOOST_TEST(twofold(std::numeric_limits<double>::denorm_min()) == "4.94066e-324");
}

BOOST_AUTO_TEST_CASE(integers_are_written_as_the_standard_library_writes_them) {
  std::mt19937_64 random(3); // NOLINT(bugprone-random-generator-seed)
  const auto check = [](std::uint64_t value) {
    const auto negative = static_cast<std::int64_t>(value);
    return text_of(value, format_uint64) == std::to_string(value) &&
           text_of(negative, format_int64) == std::to_string(negative);
  };
  for (int i = 0; i < 200'000; ++i)
    BOOST_REQUIRE(check(random() >> (random() % 64)));
  std::uint64_t power = 1;
  for (int k = 0; k < 20; ++k, power *= 10)
    BOOST_TEST((check(power) && check(power - 1) && check(power + 1)));
  BOOST_TEST(check(std::numeric_limits<std::uint64_t>::max()));
  BOOST_TEST(check(std::uint64_t{1} << 63));
}
