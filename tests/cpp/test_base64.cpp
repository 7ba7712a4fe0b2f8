#include <boost/test/unit_test.hpp>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "headrace/base64.hpp"

namespace headrace {
namespace {

struct Decoded {
  Base64Result result;
  std::string bytes;
};

Decoded decode(std::string_view text, Simd level) {
  // Memory of exactly these sizes, so that the sanitizers see a read or a write beyond.
  const std::vector<char> exact(text.begin(), text.end());
  std::vector<std::byte> out(base64_bound(text.size()));
  const auto result = decode_base64({exact.data(), exact.size()}, out, level);
  return {result, std::string(reinterpret_cast<const char *>(out.data()), result.bytes)};
}

// By every variant that this processor runs, which must agree.
Decoded decode(std::string_view text) {
  const Decoded portable = decode(text, Simd::kPortable);
  for (const Simd level : available_simd()) {
    const Decoded other = decode(text, level);
    BOOST_TEST(other.result.bad == portable.result.bad, simd_name(level) << ": " << text);
    if (portable.result)
      BOOST_TEST(other.bytes == portable.bytes, simd_name(level) << ": " << text);
  }
  return portable;
}

std::string random_bytes(std::size_t size, std::mt19937 &random) {
  std::string bytes(size, '\0');
  for (char &c : bytes)
    c = static_cast<char>(random());
  return bytes;
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
  for (std::size_t length = 0; length < 400; ++length) {
    const std::string bytes = random_bytes(length, random);
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

// 512 characters are whole blocks of every variant, then parts of one.
BOOST_AUTO_TEST_CASE(a_bad_character_is_found_wherever_it_stands) {
  std::mt19937 random(2);
  const std::string good = encode(random_bytes(384, random), false, false);
  for (std::size_t at = 0; at < good.size(); at += at < 200 ? 1 : 7)
    for (const char *bad :
         {"\"", "\\", "!", "\x7F", "\x80", "\xFF", "@", "[", "`", "{", ",", "*"}) {
      std::string text = good;
      text[at] = *bad;
      BOOST_TEST(decode(text).result.bad == at);
    }
}

BOOST_AUTO_TEST_CASE(every_byte_is_taken_or_refused_as_the_alphabets_say) {
  const std::string both = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_";
  for (int c = 0; c < 256; ++c)
    for (const std::size_t at : {0U, 31U, 50U, 127U, 130U, 255U}) {
      const auto character = static_cast<char>(c);
      std::string text(256, 'A');
      text[at] = character;
      const Decoded decoded = decode(text);
      const std::size_t value = both.find(character);
      const bool space = c == ' ' || (c >= '\t' && c <= '\r');
      if (value == both.npos) {
        // After a blank at the end three characters are left, without padding.
        BOOST_TEST((static_cast<bool>(decoded.result) ==
                    (space || (at == 255 && c == '=') || (at == 255 && c == '.'))));
        continue;
      }
      std::string expected(192, '\0');
      const std::size_t bits = (value < 64 ? value : value - 2) << (18 - 6 * (at % 4));
      for (std::size_t k = 0; k < 3; ++k)
        expected[at / 4 * 3 + k] = static_cast<char>(bits >> (16 - 8 * k));
      BOOST_TEST(decoded.bytes == expected);
    }
}

BOOST_AUTO_TEST_CASE(lines_of_76_characters_are_taken) {
  std::mt19937 random(3);
  const std::string bytes = random_bytes(5000, random);
  for (const std::string newline : {"\n", "\r\n", "\n  "}) {
    std::string text = encode(bytes, false, true);
    for (std::size_t at = 76; at < text.size(); at += 76 + newline.size())
      text.insert(at, newline);
    BOOST_TEST(decode(text).bytes == bytes);
  }
}

BOOST_AUTO_TEST_CASE(the_start_of_a_text_is_taken_up_to_the_group_that_is_not_plain) {
  std::mt19937 random(4);
  const std::string bytes = random_bytes(600, random);
  const std::string plain = encode(bytes, true, false);
  for (std::size_t end = 0; end < plain.size(); end += end < 300 ? 1 : 13)
    for (const std::string &behind :
         {std::string("\"}]"), std::string("=\""), std::string(), std::string(300, ' ')}) {
      const std::string text = plain.substr(0, end) + behind;
      for (const Simd level : available_simd()) {
        std::vector<std::byte> out(base64_bound(text.size()));
        const Base64Start start = decode_base64_start(text, out, level);
        BOOST_TEST(start.characters == end / 4 * 4);
        BOOST_TEST(start.bytes == end / 4 * 3);
        BOOST_TEST(std::memcmp(out.data(), bytes.data(), start.bytes) == 0);
      }
    }
}

BOOST_AUTO_TEST_CASE(bytes_of_every_length_are_written) {
  std::mt19937 random(5);
  for (std::size_t length = 0; length < 400; ++length) {
    const std::string bytes = random_bytes(length, random);
    const std::string expected = encode(bytes, false, true);
    for (const Simd level : available_simd()) {
      const std::vector<char> exact(bytes.begin(), bytes.end());
      std::vector<char> out(base64_size(length));
      const char *const end = encode_base64({exact.data(), exact.size()}, out.data(), level);
      BOOST_TEST(std::string_view(out.data(), static_cast<std::size_t>(end - out.data())) ==
                     expected,
                 simd_name(level));
    }
  }
}

} // namespace
} // namespace headrace
