#include <boost/test/unit_test.hpp>

#include <random>
#include <string>

#include "headrace/base64.hpp"

namespace headrace {
namespace {

struct Decoded {
  Base64Result result;
  std::string bytes;
};

Decoded decode(std::string_view text) {
  std::string out(base64_bound(text.size()), '\0');
  const auto result = decode_base64(text, std::as_writable_bytes(std::span(out)));
  out.resize(result.bytes);
  return {result, out};
}

std::string encode(std::string_view bytes, bool url, bool padded) {
  const std::string alphabet = std::string("ABCDEFGHIJKLMNOPQRSTUVWXYZ") +
                               "abcdefghijklmnopqrstuvwxyz0123456789" + (url ? "-_" : "+/");
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k)
      group = (group << 8) | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      if (k <= n)
        text += alphabet[(group >> (18 - 6 * k)) & 63];
      else if (padded)
        text += '=';
  }
  return text;
}

BOOST_AUTO_TEST_CASE(every_length_comes_back_in_both_alphabets_with_and_without_padding) {
  std::mt19937 random(1);
  for (std::size_t length = 0; length < 200; ++length) {
    std::string bytes(length, '\0');
    for (char &c : bytes)
      c = static_cast<char>(random());
    for (const bool url : {false, true})
      for (const bool padded : {false, true}) {
        const Decoded decoded = decode(encode(bytes, url, padded));
        BOOST_TEST(static_cast<bool>(decoded.result));
        BOOST_TEST(decoded.bytes == bytes);
      }
  }
}

BOOST_AUTO_TEST_CASE(white_space_may_stand_anywhere) {
  for (const char *text :
       {" QUJD", "QUJD\n", "Q U\tJ\rD", "QU\v\fJD", "QUI =", "QUI = \n", "Q\nQ\n=\n="})
    BOOST_TEST(static_cast<bool>(decode(text).result), text);
  BOOST_TEST(decode("QU JD QU JD").bytes == "ABCABC");
}

BOOST_AUTO_TEST_CASE(padding_is_left_out_or_exact) {
  for (const char *text : {"", "QQ", "QQ==", "QQ..", "QUI", "QUI=", "QUI.", "YR=="})
    BOOST_TEST(static_cast<bool>(decode(text).result), text);
  for (const char *text : {"QQ=", "QUI==", "QUJD=", "=", "QQ===", "====", "Q===", "Q"})
    BOOST_TEST(!decode(text).result, text);
}

BOOST_AUTO_TEST_CASE(the_first_bad_character_is_named) {
  const auto bad = [](std::string_view text) { return decode(text).result.bad; };
  BOOST_TEST(bad("!!!!") == 0);
  BOOST_TEST(bad("QUJDQ!JD") == 5);
  BOOST_TEST(bad("QQ==QQ==") == 4);
  BOOST_TEST(bad("QUJD=") == 4);
  BOOST_TEST(bad("QQ=") == 3);
  BOOST_TEST(bad("Q") == 1);
  BOOST_TEST(bad(std::string_view("QUJ\0", 4)) == 3);
  BOOST_TEST(bad("QUJ\xC3") == 3);
}

} // namespace
} // namespace headrace
