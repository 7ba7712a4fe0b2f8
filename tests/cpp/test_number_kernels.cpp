// The variants of the number kernels against one another and against correctly rounded values, over
// random bodies: every dtype, ranks 1 to 5, many ways to write a number and to lay out a list, and
// the same bodies with a few bytes spoilt. HEADRACE_TEST_ROUNDS=N makes N times as many.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "decode_agreement.hpp"

namespace headrace {
namespace {

using test::Decoded;
using Random = std::mt19937_64;

int rounds() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here writes the environment.
  const char *const wanted = std::getenv("HEADRACE_TEST_ROUNDS");
  return wanted == nullptr ? 1 : std::atoi(wanted);
}

SignatureSet one_input(const char *dtype) {
  const TensorSpec spec{dtype_from_name(dtype).value(), dtype, false, {}};
  std::vector<Signature> all;
  all.emplace_back("serving_default", Signature::Specs{{"x", spec}}, Signature::Specs());
  return SignatureSet(std::move(all));
}

std::string digits(Random &random, std::size_t count) {
  std::string text(count, '0');
  for (char &c : text)
    c = static_cast<char>('0' + random() % 10);
  return text;
}

// `precision` < 0: the shortest.
template <class Real> std::string written(Real value, std::chars_format format, int precision) {
  char buffer[128];
  const auto end = precision < 0
                       ? std::to_chars(buffer, std::end(buffer), value, format)
                       : std::to_chars(buffer, std::end(buffer), value, format, precision);
  return {buffer, end.ptr};
}

// The decimal text of a value half way between two floats, or a hair beside it.
std::string halfway(Random &random) {
  const auto bits = static_cast<std::uint32_t>(random() % 0x60000000 + 0x10000000);
  const double between = (static_cast<double>(std::bit_cast<float>(bits)) +
                          static_cast<double>(std::bit_cast<float>(bits + 1))) /
                         2;
  const double near[] = {between, std::nextafter(between, 0), std::nextafter(between, 2 * between)};
  const bool fixed = between > 1e-3 && between < 1e9 && random() % 2 == 0;
  const double value = near[random() % 3];
  return fixed ? written(value, std::chars_format::fixed, static_cast<int>(20 + random() % 15))
               : written(value, std::chars_format::scientific, static_cast<int>(16 + random() % 9));
}

// The ways to write a number; a body uses one, or a few of them.
constexpr unsigned kStyles = 15;
std::string number(Random &random, unsigned style) {
  switch (style) {
  case 0:
    return std::to_string(random() % 256); // pixels
  case 1:
    return std::to_string(random() % 128);
  case 2:
    return std::to_string(random() % 50'000); // token ids
  case 3:
    return std::to_string(static_cast<std::int64_t>(random()) >> (random() % 64));
  case 4:
    return std::to_string(random() >> (random() % 64));
  case 5:
    return "0." + digits(random, 17);
  case 6:
    return written(std::ldexp(static_cast<float>(random() >> 40), -24), std::chars_format::general,
                   -1);
  case 7:
    return std::to_string(random() % 2) + "." + digits(random, 4);
  case 8:
    return std::to_string(random() % 1000) + "." + digits(random, 5);
  case 9: // softmax
    return written(std::exp(-static_cast<double>(random() % 40'000) / 1000),
                   std::chars_format::general, -1);
  case 10:
    return written(static_cast<double>(static_cast<std::int64_t>(random())) * 1e-9,
                   std::chars_format::scientific, static_cast<int>(random() % 18));
  case 11: // now and then too long an exponent for the quick loop
    return std::to_string(1 + random() % 9) + (random() % 2 == 0 ? "e" : "E+") +
           std::string(random() % 20 == 0 ? 4 : 0, '0') + digits(random, 1 + random() % 2);
  case 12:
    return halfway(random);
  case 13:
    return (random() % 2 == 0 ? "-" : "") + std::to_string(random() % 10) + "." +
           digits(random, 1 + random() % 40);
  default:
    return random() % 8 == 0 ? (random() % 2 == 0 ? "-0" : "-0.0") : "-" + digits(random, 1);
  }
}

// Between elements and lists.
struct Layout {
  std::string comma, open, close, row;
};

Layout layout(Random &random) {
  const char *const blanks[] = {"", "", "", " ", "\n", "  ", "\t", "\r\n    ", "       "};
  const auto any = [&] { return std::string(blanks[random() % std::size(blanks)]); };
  if (random() % 3 == 0)
    return {",", "[", "]", ","};
  if (random() % 2 == 0)
    return {", ", "[", "]", ", "};
  return {any() + "," + any(), "[" + any(), any() + "]", any() + "," + any()};
}

struct Body {
  std::string text;
  std::vector<std::string> numbers;
};

class Writer {
public:
  explicit Writer(Random &random) : random_(random), layout_(layout(random)) {
    for (std::uint64_t kinds = 1 + (random() % 3 == 0 ? random() % 4 : 0); kinds-- > 0;)
      styles_.push_back(static_cast<unsigned>(random() % kStyles));
    // Up to a few stretches of text.
    const std::uint64_t rank = 1 + random() % 5;
    std::uint64_t room = 1 + random() % 1500;
    for (std::uint64_t i = 0; i < rank; ++i) {
      const std::uint64_t most = i + 1 == rank ? room : rank > 2 ? 5 : 40;
      dims_.push_back(1 + random() % std::min(most, room));
      room = std::max<std::uint64_t>(1, room / dims_.back());
    }
    std::shuffle(dims_.begin(), dims_.end(), random);
  }

  Body write() {
    body_.text = random_() % 2 == 0 ? R"({"instances":)" : R"({"inputs": )";
    put(0);
    body_.text += "}" + std::string(random_() % 2 == 0 ? 0 : 200, ' ');
    return std::move(body_);
  }

private:
  void put(std::size_t depth) {
    if (depth == dims_.size()) {
      body_.numbers.push_back(number(random_, styles_[random_() % styles_.size()]));
      body_.text += body_.numbers.back();
      return;
    }
    body_.text += layout_.open;
    for (std::uint64_t i = 0; i < dims_[depth]; ++i) {
      if (i != 0)
        body_.text += depth + 1 == dims_.size() ? layout_.comma : layout_.row;
      // Now and then a layout of its own, as in a body put together by hand.
      if (random_() % 500 == 0)
        body_.text += random_() % 2 == 0 ? " " : "\n  ";
      put(depth + 1);
    }
    body_.text += layout_.close;
  }

  Random &random_;
  Layout layout_;
  std::vector<unsigned> styles_;
  std::vector<std::uint64_t> dims_;
  Body body_;
};

std::string spoil(Random &random, std::string text) {
  const char bytes[] = "0123456789.,-+eE[]{}\": \tNI\x01";
  for (std::uint64_t edits = 1 + random() % 3; edits-- > 0 && !text.empty();) {
    const std::size_t at = random() % text.size();
    const char byte = bytes[random() % (sizeof bytes - 1)];
    switch (random() % 4) {
    case 0:
      text[at] = byte;
      break;
    case 1:
      text.erase(at, 1 + random() % 3);
      break;
    case 2:
      text.insert(at, 1 + random() % 2, byte);
      break;
    default: // a piece of it once more, elsewhere
      text.insert(random() % text.size(), text.substr(at, random() % 12));
    }
  }
  return text;
}

const char *const kDtypes[] = {"float32", "float64", "float16", "bfloat16", "int8",   "int16",
                               "int32",   "int64",   "uint8",   "uint16",   "uint32", "uint64"};

BOOST_AUTO_TEST_CASE(variants_agree_over_random_bodies_and_spoilt_ones) {
  Random random(20);
  std::uint64_t right = 0;
  for (int i = 0; i < 6000 * rounds(); ++i) {
    const SignatureSet signatures = one_input(kDtypes[random() % std::size(kDtypes)]);
    DecodeOptions options;
    options.integral_floats = random() % 4 == 0;
    std::string text = Writer(random).write().text;
    if (random() % 2 == 0)
      text = spoil(random, std::move(text));
    const std::string wrong = test::disagreement(text, signatures, options);
    BOOST_REQUIRE_MESSAGE(wrong.empty(), wrong << " over " << text);
    right += test::decode_by(available_simd().back(), text, signatures, options).error.empty();
  }
  BOOST_TEST(right > 1000); // bodies, and not only refusals
}

template <class Real> Real rounded(const std::string &text) {
  if (text == "-0") // an integer, hence unsigned
    return 0;
  if constexpr (sizeof(Real) == 4)
    return std::strtof(text.c_str(), nullptr);
  else
    return std::strtod(text.c_str(), nullptr);
}

template <class Real> void check_values(const char *dtype, int bodies) {
  Random random(21);
  const SignatureSet signatures = one_input(dtype);
  for (int i = 0; i < bodies; ++i) {
    const Body body = Writer(random).write();
    for (const Simd simd : available_simd()) {
      const Decoded decoded = test::decode_by(simd, body.text, signatures);
      BOOST_REQUIRE_MESSAGE(decoded.error.empty(), decoded.error << " over " << body.text);
      const std::string &bytes = decoded.tensors.at(0).bytes;
      BOOST_REQUIRE_MESSAGE(bytes.size() == body.numbers.size() * sizeof(Real), body.text);
      for (std::size_t k = 0; k < body.numbers.size(); ++k) {
        const Real right = rounded<Real>(body.numbers[k]);
        if (std::memcmp(bytes.data() + k * sizeof right, &right, sizeof right) != 0)
          BOOST_REQUIRE_MESSAGE(false, simd_name(simd) << " misreads " << body.numbers[k] << " in "
                                                       << body.text);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(reals_are_correctly_rounded) {
  check_values<float>("float32", 3000 * rounds());
  check_values<double>("float64", 3000 * rounds());
}

// An exponent that ends a row, within a block and across blocks and stretches, and behind it a
// number that the quick loop stops at: its exponent is too long, or it is too big.
BOOST_AUTO_TEST_CASE(exponents_at_the_end_of_rows) {
  const SignatureSet signatures = one_input("float32");
  for (const char *odd : {"2e000001", "2e39"})
    for (const char *last : {"-1.08706070e+09", "7E3", "1e-05"})
      for (int at = 0; at < 60; ++at)
        for (std::size_t shift = 0; shift < 40; ++shift) {
          std::string text = R"({"instances":[[1, 2, 3, 4])";
          for (int i = 0; i < 120; ++i)
            text += ", " + std::string(i == 2 ? shift : 0, ' ') + "[" +
                    (i % 60 == at ? odd : "1.5") + ", 2.25, 3.125, " + last + "]";
          text += "]}";
          const std::string wrong = test::disagreement(text, signatures);
          BOOST_REQUIRE_MESSAGE(wrong.empty(), wrong << " over " << text);
        }
}

} // namespace
} // namespace headrace
