// Base64 in a request body to a tensor of strings, against simdjson's On-Demand interface and a
// decoder by a table of 256 entries. contest.hpp says how it is started and what it prints.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

#include "contest.hpp"
#include "headrace/json_decode.hpp"
#include "headrace/json_write.hpp"
#include "reused_sink.hpp"

using namespace headrace;

namespace {

struct Body {
  std::string name;
  std::size_t strings;
  std::size_t characters; ///< of each
  std::string text;
};

constexpr auto kTable = [] {
  std::array<std::int8_t, 256> table{};
  table.fill(-1);
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  return table;
}();

// Four characters at a time, as most decoders do; aborts at what is no base64.
void decode_by_table(std::string_view text, std::vector<unsigned char> &out) {
  while (text.ends_with('='))
    text.remove_suffix(1);
  const std::size_t first = out.size();
  out.resize(first + text.size() / 4 * 3 + 3);
  unsigned char *to = out.data() + first;
  const auto *from = reinterpret_cast<const unsigned char *>(text.data());
  std::size_t left = text.size();
  int seen = 0;
  for (; left >= 4; left -= 4, from += 4, to += 3) {
    const int a = kTable[from[0]];
    const int b = kTable[from[1]];
    const int c = kTable[from[2]];
    const int d = kTable[from[3]];
    seen |= a | b | c | d;
    const int group = a << 18 | b << 12 | c << 6 | d;
    to[0] = static_cast<unsigned char>(group >> 16);
    to[1] = static_cast<unsigned char>(group >> 8);
    to[2] = static_cast<unsigned char>(group);
  }
  int group = 0;
  for (std::size_t i = 0; i < left; ++i) {
    seen |= kTable[from[i]];
    group |= kTable[from[i]] << (18 - 6 * i);
  }
  for (std::size_t i = 1; i < left; ++i)
    *to++ = static_cast<unsigned char>(group >> (24 - 8 * i));
  if (seen < 0)
    std::abort();
  out.resize(static_cast<std::size_t>(to - out.data()));
}

// The bytes of all strings, one behind the other.
const std::vector<unsigned char> &on_demand(const simdjson::padded_string &text) {
  static simdjson::ondemand::parser parser;
  static std::vector<unsigned char> out;
  out.clear();
  auto document = parser.iterate(text);
  for (auto row : document["instances"].get_array())
    decode_by_table(row["b64"].get_string().value(), out);
  return out;
}

std::vector<Body> make_bodies() {
  std::mt19937_64 random(1);
  std::vector<Body> bodies;
  const auto add = [&](std::string name, std::size_t strings, std::size_t bytes) {
    std::string text = "{\"instances\": [";
    std::size_t characters = 0;
    for (std::size_t i = 0; i < strings; ++i) {
      std::string image(bytes, '\0');
      std::generate(image.begin(), image.end(), [&] { return static_cast<char>(random()); });
      ByteBuffer written;
      write_base64(image, written);
      characters = written.size();
      text += (i == 0 ? "{\"b64\": \"" : ", {\"b64\": \"") + std::string(written.view()) + "\"}";
    }
    bodies.push_back({std::move(name), strings, characters, text + "]}"});
  };
  add("base64, one string of 3 MB", 1, 2'250'000);
  add("base64, 64 strings of 16 KB", 64, 12'000);
  add("base64, 4,096 strings of 40 B", 4096, 30);
  return bodies;
}

} // namespace

int main(int argc, char **argv) {
  const contest::Contest contest(argc, argv);
  TensorSpec spec;
  spec.dtype = DType::kString;
  std::vector<Signature> all;
  all.emplace_back("serving_default", Signature::Specs{{"x", spec}}, Signature::Specs{});
  const SignatureSet signatures(std::move(all));
  for (const Body &body : make_bodies()) {
    if (!contest.wants(body.name))
      continue;
    contest::ReusedSink sink;
    const auto bytes = std::as_bytes(std::span(body.text));
    const auto ours = [&] {
      if (!decode_predict(bytes, signatures, DecodeOptions{}, sink))
        std::abort();
    };
    const simdjson::padded_string padded(body.text);
    const std::vector<unsigned char> *theirs_out = nullptr;
    const auto theirs = [&] { theirs_out = &on_demand(padded); };
    ours();
    theirs();
    // Ours has the table of offsets behind the bytes.
    const bool differs = sink.bytes().size() < theirs_out->size() ||
                         std::memcmp(sink.bytes().data(), theirs_out->data(), theirs_out->size());
    contest.run({body.name, body.text.size(), double(body.strings), differs},
                {{"headrace", ours}, {"ondemand", theirs}});
  }
}
