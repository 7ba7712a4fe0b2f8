// Numbers against references that round correctly: glibc's strtod and strtof, and for the 16-bit
// floats exact decimal text of every value and every middle between two.
#include <boost/test/unit_test.hpp>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "headrace/number_parse.hpp"
#include "number_kernels.hpp"

namespace headrace {
namespace {

// A check of Boost's that holds takes longer than parsing a number, and millions are parsed here.
void require(bool holds, const std::string &text) {
  if (!holds)
    BOOST_FAIL(text);
}

Decimal parse(const std::string &text) {
  const NumberScan scan = scan_number(text.data(), text.data() + text.size());
  require(scan.fault == NumberFault::kNone, text);
  require(scan.next == text.data() + text.size(), text);
  return scan.decimal;
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

// One number through the kernel of a dtype, far from the end (quick reading) or at it.
template <class T> bool by_kernel(DType dtype, const std::string &text, bool far, T &value) {
  const std::string padded = text + (far ? "]" + std::string(100, ' ') : "");
  std::byte out[8];
  const char *const next =
      number_kernel(dtype, active_simd()).one(padded.data(), padded.data() + padded.size(), out);
  if (next == nullptr)
    return false;
  require(next == padded.data() + text.size(), text);
  std::memcpy(&value, out, sizeof value);
  return true;
}

void check_floats(const std::string &text) {
  const char *const reference = text == "-0" ? "0" : text.c_str(); // an integer, hence unsigned
  const double wide = std::strtod(reference, nullptr);
  const float narrow = std::strtof(reference, nullptr);
  const NumberScan scan = scan_number(text.data(), text.data() + text.size());
  if (std::isinf(wide)) {
    require(scan.fault == NumberFault::kTooBig, text);
    return;
  }
  require(bits(to_float64(scan.decimal)) == bits(wide), text);
  require(bits(to_float32(scan.decimal)) == bits(narrow), text);
  for (const bool far : {false, true}) {
    double d = 0;
    float f = 0;
    if (by_kernel(DType::kFloat64, text, far, d))
      require(bits(d) == bits(wide), text);
    if (by_kernel(DType::kFloat32, text, far, f))
      require(bits(f) == bits(narrow), text);
    else
      require(std::isinf(narrow), text); // all else is plain enough
  }
}

std::string digits(std::mt19937_64 &random, std::size_t count) {
  std::string text(count, '0');
  for (char &c : text)
    c = static_cast<char>('0' + random() % 10);
  return text;
}

// Text of many kinds: 1 to 40 digits around the point, with and without exponent.
std::string random_number(std::mt19937_64 &random) {
  std::string text = random() % 4 == 0 ? "-" : "";
  switch (random() % 8) {
  case 0:
    text += "0." + digits(random, 1 + random() % 20);
    break;
  case 1:
    text += std::to_string(random() % 1000) + "." + digits(random, 1 + random() % 8);
    break;
  case 2:
    text += std::to_string(random() >> (random() % 64));
    break;
  case 3:
    text += "0." + std::string(random() % 30, '0') + digits(random, 1 + random() % 20);
    break;
  case 4:
    text += std::to_string(1 + random() % 9) + digits(random, random() % 40) + "." +
            digits(random, 1 + random() % 40);
    break;
  default: {
    char buffer[64];
    const auto value = std::bit_cast<double>(random() & ~(std::uint64_t{1} << 63));
    const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x7FFFFFFF);
    if (!std::isfinite(value) || !std::isfinite(narrow))
      return "0";
    const auto kind = random() % 3;
    const int precision = static_cast<int>(random() % 20);
    std::to_chars_result end{};
    if (kind == 0)
      end = std::to_chars(buffer, std::end(buffer), narrow);
    else if (kind == 1)
      end =
          std::to_chars(buffer, std::end(buffer), value, std::chars_format::scientific, precision);
    else
      end =
          std::to_chars(buffer, std::end(buffer), narrow, std::chars_format::scientific, precision);
    text.append(buffer, end.ptr);
  }
  }
  if (text.find('e') == std::string::npos && random() % 3 == 0)
    text += (random() % 2 == 0 ? "e" : "E-") + std::to_string(random() % 60);
  return text;
}

BOOST_AUTO_TEST_CASE(random_numbers_are_rounded_correctly) {
  std::mt19937_64 random(42);
  for (int i = 0; i < 2'000'000; ++i)
    check_floats(random_number(random));
}

// Exactly half-way between two floats, and a hair beside it, far behind the digits that fit a word.
template <class Float> std::string middle_text(Float low, Float high) {
  char buffer[1200];
  const auto exact =
      std::to_chars(buffer, std::end(buffer),
                    (static_cast<long double>(low) + static_cast<long double>(high)) / 2,
                    std::chars_format::scientific, 1100);
  std::string text(buffer, exact.ptr);
  const std::size_t e = text.find('e');
  std::string mantissa = text.substr(0, e);
  while (mantissa.back() == '0')
    mantissa.pop_back();
  if (mantissa.back() == '.')
    mantissa += '0';
  return mantissa + "|" + text.substr(e);
}

BOOST_AUTO_TEST_CASE(middles_and_their_neighbours_are_rounded_correctly) {
  std::mt19937_64 random(43);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    if (i % 2 == 0) {
      const auto low = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x7FFFFFFF);
      const float high = std::nextafter(low, HUGE_VALF);
      if (!std::isfinite(high))
        continue;
      text = middle_text(low, high);
    } else {
      const auto low = std::bit_cast<double>(random() & 0x7FFFFFFFFFFFFFFF);
      const double high = std::nextafter(low, HUGE_VAL);
      if (!std::isfinite(high) || low < 1e-300)
        continue;
      text = middle_text(low, high);
    }
    const std::size_t bar = text.find('|');
    for (const char *beside : {"", "0000000000000000000000001"})
      check_floats(text.substr(0, bar) + beside + text.substr(bar + 1));
    std::string below = text.substr(0, bar);
    if (below.back() != '0')
      check_floats(std::string(below.begin(), below.end() - 1) +
                   static_cast<char>(below.back() - 1) + "999999999" + text.substr(bar + 1));
  }
}

// The value of 16-bit float bits, exactly; `kExponent` bits of exponent.
template <int kExponent> double value_16(std::uint32_t half) {
  constexpr int kMantissa = 15 - kExponent;
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  const auto exponent = static_cast<int>(half >> kMantissa);
  const double fraction = half & ((1U << kMantissa) - 1);
  return exponent == 0 ? std::ldexp(fraction, 1 - kBias - kMantissa)
                       : std::ldexp(fraction + (1 << kMantissa), exponent - kBias - kMantissa);
}

template <int kExponent> void check_16(std::uint16_t (*round)(const Decimal &) noexcept) {
  constexpr std::uint32_t kInfinity = ((1U << kExponent) - 1) << (15 - kExponent);
  for (std::uint32_t low = 0; low < kInfinity; ++low) {
    // The step to infinity is as wide as the one before it.
    const double a = value_16<kExponent>(low);
    const double b =
        low + 1 == kInfinity ? 2 * a - value_16<kExponent>(low - 1) : value_16<kExponent>(low + 1);
    char buffer[512];
    const auto printed =
        std::to_chars(buffer, std::end(buffer), (a + b) / 2, std::chars_format::scientific, 240);
    const std::string text(buffer, printed.ptr);
    const std::size_t e = text.find('e');
    const std::string above = text.substr(0, e) + "0001" + text.substr(e);
    std::string mantissa = text.substr(0, e);
    mantissa.erase(mantissa.find_last_not_of(".0") + 1);
    mantissa.back() = static_cast<char>(mantissa.back() - 1);
    mantissa += mantissa.find('.') == std::string::npos ? ".99999" : "99999";
    const std::string below = mantissa + text.substr(e);
    require(round(parse(text)) == ((low & 1) == 0 ? low : low + 1), text);
    require(round(parse(above)) == low + 1, above);
    require(round(parse(below)) == low, below);
    const auto exact = std::to_chars(buffer, std::end(buffer), a);
    std::string negative = "-";
    negative.append(buffer, exact.ptr);
    require(round(parse(negative.substr(1))) == low, negative);
    // "-0" is the integer zero, which has no sign.
    if (low == 0)
      negative += ".0";
    require(round(parse(negative)) == (low | 0x8000), negative);
  }
}

BOOST_AUTO_TEST_CASE(every_half_and_every_middle_between_halves) { check_16<5>(&to_float16); }

BOOST_AUTO_TEST_CASE(every_bfloat16_and_every_middle_between_them) { check_16<8>(&to_bfloat16); }

BOOST_AUTO_TEST_CASE(sixteen_bit_floats_at_their_limits) {
  BOOST_TEST(to_float16(parse("65519.99999999999999999999999999")) == 0x7BFF);
  BOOST_TEST(to_float16(parse("65520")) == 0x7C00);
  BOOST_TEST(to_float16(parse("1e300")) == 0x7C00);
  BOOST_TEST(to_float16(parse("-1e-300")) == 0x8000);
  BOOST_TEST(to_bfloat16(parse("3.4e38")) == 0x7F80);
  BOOST_TEST(to_float16(parse("-0")) == 0);
  BOOST_TEST(to_float16(parse("-0.0")) == 0x8000);
}

template <class Int> void check_integers(DType dtype) {
  std::mt19937_64 random(44);
  const auto check = [&](const std::string &text) {
    Int expected{};
    const auto read = std::from_chars(text.data(), text.data() + text.size(), expected);
    const bool fits = read.ec == std::errc() && read.ptr == text.data() + text.size();
    const auto integer = to_integer(parse(text), false);
    for (const bool far : {false, true}) {
      Int value{};
      if (!by_kernel(dtype, text, far, value))
        continue; // the exact function decides, below
      require(fits && value == expected, text);
    }
    if (fits && text != "-0") {
      require(integer.has_value(), text);
      const std::uint64_t magnitude = integer->magnitude;
      require(static_cast<Int>(integer->negative ? ~magnitude + 1 : magnitude) == expected, text);
    }
  };
  for (int i = 0; i < 300'000; ++i)
    check((random() % 2 == 0 ? "-" : "") + std::to_string(random() >> (random() % 64)));
  for (const auto limit : {std::numeric_limits<Int>::min(), std::numeric_limits<Int>::max()})
    for (int step = -3; step <= 3; ++step) {
      __extension__ const __int128 near = static_cast<__int128>(limit) + step;
      const bool negative = near < 0;
      std::string text = near == 0 ? "0" : "";
      for (auto rest = negative ? -near : near; rest != 0; rest /= 10)
        text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
      check((negative ? "-" : "") + text);
    }
}

BOOST_AUTO_TEST_CASE(integers_are_exact_to_the_ends_of_their_type) {
  check_integers<std::int8_t>(DType::kInt8);
  check_integers<std::uint8_t>(DType::kUint8);
  check_integers<std::int16_t>(DType::kInt16);
  check_integers<std::uint16_t>(DType::kUint16);
  check_integers<std::int32_t>(DType::kInt32);
  check_integers<std::uint32_t>(DType::kUint32);
  check_integers<std::int64_t>(DType::kInt64);
  check_integers<std::uint64_t>(DType::kUint64);
}

BOOST_AUTO_TEST_CASE(integers_in_other_spellings_are_integers_where_allowed) {
  const auto whole = [](const char *text) { return to_integer(parse(text), true); };
  BOOST_TEST(whole("1e3")->magnitude == 1000);
  BOOST_TEST(whole("-1.50e1")->magnitude == 15);
  BOOST_TEST(whole("18446744073709551615.0")->magnitude == ~std::uint64_t{0});
  BOOST_TEST(whole("0.0001e4")->magnitude == 1);
  BOOST_TEST(whole("0e9")->magnitude == 0);
  BOOST_TEST(!whole("1.5"));
  BOOST_TEST(!whole("1e-1"));
  BOOST_TEST(!whole("18446744073709551616.0"));
  BOOST_TEST(!whole("1e20"));
  BOOST_TEST(!to_integer(parse("1e3"), false));
}

BOOST_AUTO_TEST_CASE(malformed_numbers_name_the_byte_to_blame) {
  const struct {
    std::string text;
    NumberFault fault;
    std::ptrdiff_t offset;
  } kCases[] = {
      {"", NumberFault::kInvalid, 0},          {"-", NumberFault::kInvalid, 1},
      {"+1", NumberFault::kInvalid, 0},        {".5", NumberFault::kInvalid, 0},
      {"1.", NumberFault::kMissFraction, 2},   {"1.e5", NumberFault::kMissFraction, 2},
      {"1e", NumberFault::kMissExponent, 2},   {"1e+", NumberFault::kMissExponent, 3},
      {"1E-x", NumberFault::kMissExponent, 3}, {"1e309", NumberFault::kTooBig, 0},
      {"1.8e308", NumberFault::kTooBig, 0},    {"-1e99999999999999999999", NumberFault::kTooBig, 0},
  };
  for (const auto &one : kCases) {
    const NumberScan scan = scan_number(one.text.data(), one.text.data() + one.text.size());
    BOOST_TEST((scan.fault == one.fault), one.text);
    BOOST_TEST(scan.next - one.text.data() == one.offset, one.text);
  }
}

BOOST_AUTO_TEST_CASE(the_limits_of_float64_are_those_of_the_value_not_of_the_spelling) {
  BOOST_TEST(to_float64(parse("1.7976931348623157e308")) == std::numeric_limits<double>::max());
  BOOST_TEST(to_float64(parse("1.797693134862315807e308")) == std::numeric_limits<double>::max());
  BOOST_TEST(to_float64(parse("0e999")) == 0);
  BOOST_TEST(to_float64(parse("1e-400")) == 0);
  BOOST_TEST(std::signbit(to_float64(parse("-1e-400"))));
  BOOST_TEST(to_float64(parse("0." + std::string(400, '0') + "1e401")) == 1);
  BOOST_TEST(to_float64(parse("1" + std::string(400, '0') + "e-400")) == 1);
  BOOST_TEST(to_float64(parse("1e-99999999999999999999")) == 0);
  BOOST_TEST(to_float64(parse("4.9e-324")) == std::numeric_limits<double>::denorm_min());
  BOOST_TEST(to_float64(parse("2.4703282292062327e-324")) == 0);
  BOOST_TEST(to_float64(parse("2.4703282292062328e-324")) ==
             std::numeric_limits<double>::denorm_min());
}

} // namespace
} // namespace headrace
