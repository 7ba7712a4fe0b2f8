#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>

#include "decode_case.hpp"

namespace headrace {
namespace {

using test::DecodeCase;

const char *const kFiles[] = {"decode.jsonl", "decode-oracle.jsonl", "decode-errors.jsonl"};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

SignatureSet one_input(const char *dtype, std::string name = "x") {
  TensorSpec spec;
  spec.dtype_name = dtype;
  spec.dtype = dtype_from_name(dtype).value();
  std::vector<Signature> all;
  all.emplace_back("serving_default", Signature::Specs{{std::move(name), spec}},
                   Signature::Specs());
  return SignatureSet(std::move(all));
}

// Keeps what was asked of it, and answers with memory of exactly the size asked for, moved at every
// growth, so that a sanitizer sees any byte written beyond it and any use of the old place.
class StrictSink final : public TensorSink {
public:
  explicit StrictSink(std::size_t inputs) : memory_(inputs), sizes_(inputs, 0) {}

  std::span<std::byte> grow(std::size_t index, std::size_t used, std::size_t need) override {
    auto *fresh =
        static_cast<std::byte *>(::operator new(need, std::align_val_t{kTensorAlignment}));
    if (used != 0)
      std::memcpy(fresh, memory_.at(index).get(), used);
    memory_.at(index).reset(fresh);
    sizes_.at(index) = need;
    std::uint64_t total = 0;
    for (const std::uint64_t size : sizes_)
      total += size;
    peak = std::max(peak, total);
    return {fresh, need};
  }
  void finish(std::size_t index, DType, const Shape &, std::uint64_t bytes) override {
    BOOST_TEST(bytes <= sizes_.at(index));
    ++finished;
  }

  std::uint64_t peak = 0;
  std::size_t finished = 0;

private:
  struct Free {
    void operator()(std::byte *p) const noexcept {
      ::operator delete(p, std::align_val_t{kTensorAlignment});
    }
  };
  std::vector<std::unique_ptr<std::byte, Free>> memory_;
  std::vector<std::uint64_t> sizes_;
};

void run_case(const DecodeCase &one, std::string_view body) {
  const SignatureSet signatures = one.signatures();
  for (const Simd simd : available_simd()) {
    DecodeOptions options = one.options;
    options.simd = simd;
    HeapSink sink(one.inputs.size());
    const auto result = decode_predict(bytes_of(body), signatures, options, sink);
    const std::string wrong = test::judge(one, signatures, result, sink);
    BOOST_TEST(wrong.empty(), one.id << ", " << simd_name(simd) << ": " << wrong);
  }
}

BOOST_AUTO_TEST_CASE(every_vector_gives_what_it_says) {
  std::size_t count = 0;
  for (const char *file : kFiles)
    for (const DecodeCase &one : test::load_cases(file)) {
      run_case(one, one.body);
      ++count;
    }
  BOOST_TEST(count > 800);
}

BOOST_AUTO_TEST_CASE(a_body_in_memory_of_its_exact_size_at_any_alignment_gives_the_same) {
  for (const char *file : kFiles)
    for (const DecodeCase &one : test::load_cases(file))
      for (const std::size_t shift : {0, 1, 7, 33}) {
        const auto memory = std::make_unique<char[]>(shift + one.body.size());
        std::copy(one.body.begin(), one.body.end(), memory.get() + shift);
        run_case(one, {memory.get() + shift, one.body.size()});
      }
}

BOOST_AUTO_TEST_CASE(a_slice_of_a_larger_buffer_gives_the_same_whatever_follows) {
  for (const char *file : kFiles)
    for (const DecodeCase &one : test::load_cases(file))
      for (const char filler : {'0', '"', ']', '\\', ' ', '\xFF'}) {
        const std::string larger = one.body + std::string(128, filler);
        run_case(one, std::string_view(larger).substr(0, one.body.size()));
      }
}

// Text near the end of the body is read byte by byte, text before that in registers: blanks behind
// the body move its end away.
BOOST_AUTO_TEST_CASE(blanks_behind_the_body_change_nothing) {
  for (const char *file : kFiles)
    for (const DecodeCase &one : test::load_cases(file)) {
      const bool open = one.expect.error;
      if (!open)
        run_case(one, one.body + std::string(200, ' '));
    }
}

BOOST_AUTO_TEST_CASE(a_sink_is_asked_for_no_more_than_the_bound_says) {
  for (const char *file : kFiles)
    for (const DecodeCase &one : test::load_cases(file)) {
      const SignatureSet signatures = one.signatures();
      StrictSink sink(one.inputs.size());
      const auto result = decode_predict(bytes_of(one.body), signatures, one.options, sink);
      BOOST_TEST(sink.peak <= decoded_bytes_bound(bytes_of(one.body), signatures), one.id);
      if (result)
        BOOST_TEST(sink.finished == one.inputs.size(), one.id);
    }
}

BOOST_AUTO_TEST_CASE(check_predict_agrees_with_the_decoder_about_syntax) {
  for (const char *file : kFiles)
    for (const DecodeCase &one : test::load_cases(file)) {
      HeapSink sink(one.inputs.size());
      const auto decoded = decode_predict(bytes_of(one.body), one.signatures(), one.options, sink);
      const auto checked = check_predict(bytes_of(one.body), one.options);
      if (!checked) {
        BOOST_REQUIRE(!decoded);
        // Who knows the signature goes on to show an example, before the closing parenthesis.
        std::string said = checked.error().message;
        if (said.back() == ')')
          said.pop_back();
        BOOST_TEST(decoded.error().message.starts_with(said));
      } else if (!decoded) {
        BOOST_TEST((decoded.error().code != ErrorCode::kSyntax), one.id);
        BOOST_TEST((decoded.error().code != ErrorCode::kInvalidUtf8), one.id);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_full_sink_is_an_error_and_not_a_crash) {
  for (const char *dtype : {"float32", "string", "bool"}) {
    HeapSink sink(1, 64);
    std::string body = R"({"instances":[)";
    for (int i = 0; i < 200; ++i)
      body += std::string(i == 0 ? "" : ",") + (dtype[0] == 's'   ? "\"text\""
                                                : dtype[0] == 'b' ? "true"
                                                                  : "1.5");
    const auto result = decode_predict(bytes_of(body + "]}"), one_input(dtype), {}, sink);
    BOOST_REQUIRE(!result);
    BOOST_TEST((result.error().code == ErrorCode::kTooLarge));
  }
}

BOOST_AUTO_TEST_CASE(a_signature_named_behind_the_tensors_decides) {
  TensorSpec floats{DType::kFloat32, "float32", false, {}};
  TensorSpec ints{DType::kInt64, "int64", false, {}};
  std::vector<Signature> all;
  all.emplace_back("serving_default", Signature::Specs{{"x", floats}}, Signature::Specs());
  all.emplace_back("other", Signature::Specs{{"y", ints}}, Signature::Specs());
  const SignatureSet signatures(std::move(all));
  for (const char *body : {R"({"instances":[1,2],"signature_name":"other"})",
                           R"({"instances":[1,2],"signature\u005fname":"other"})",
                           R"({"signature_name":"other","instances":[1,2]})"}) {
    HeapSink sink(1);
    const auto result = decode_predict(bytes_of(body), signatures, {}, sink);
    BOOST_REQUIRE(result);
    BOOST_TEST(result.value().signature_name == "other");
    BOOST_TEST((sink.tensors()[0].dtype == DType::kInt64));
    BOOST_TEST(sink.tensors()[0].bytes == 16);
  }
}

BOOST_AUTO_TEST_CASE(other_members_are_kept_as_they_stand) {
  const std::string body = R"({"id" : "a", "instances":[1], "p\u0041" : { "k" : [1, 2] }})";
  DecodeOptions options;
  options.keep_extra = true;
  HeapSink sink(1);
  const auto result = decode_predict(bytes_of(body), one_input("float32"), options, sink);
  BOOST_REQUIRE(result);
  const auto &extra = result.value().extra;
  BOOST_REQUIRE(extra.size() == 2);
  BOOST_TEST(extra[0].first == "id");
  BOOST_TEST(extra[0].second == "\"a\"");
  BOOST_TEST(extra[1].first == "pA");
  BOOST_TEST(extra[1].second == R"({ "k" : [1, 2] })");
}

BOOST_AUTO_TEST_CASE(rows_is_the_first_extent_that_all_inputs_share) {
  TensorSpec floats{DType::kFloat32, "float32", false, {}};
  std::vector<Signature> all;
  all.emplace_back("serving_default", Signature::Specs{{"a", floats}, {"b", floats}},
                   Signature::Specs());
  const SignatureSet signatures(std::move(all));
  const auto rows = [&](const char *body) {
    HeapSink sink(2);
    return decode_predict(bytes_of(body), signatures, {}, sink).value().rows;
  };
  BOOST_TEST(rows(R"({"inputs":{"a":[1,2],"b":[[1],[2]]}})") == 2);
  BOOST_TEST(rows(R"({"inputs":{"a":[1,2],"b":[1]}})") == 0);
  BOOST_TEST(rows(R"({"inputs":{"a":[1,2],"b":1}})") == 0);
  BOOST_TEST(rows(R"({"instances":[{"a":1,"b":1},{"b":2,"a":2},{"a":3,"b":3}]})") == 3);
}

// Structured near-misses: one byte of a valid body changed, removed or doubled. Whatever comes, the
// quick reading far from the end and the careful one near it must agree.
BOOST_AUTO_TEST_CASE(mutated_bodies_are_read_alike_near_the_end_and_far_from_it) {
  std::mt19937_64 random(7);
  const char *const kBodies[] = {
      R"({"instances":[1.25,-3e5,0.1,17,NaN,-Infinity,0,-0.0,123456789012345678,1e-7]})",
      R"({"instances":[[1,2,3],[4,5,6],[70,800,9000]]})",
      R"({"inputs":{"x":[[true,false],[false,true]]}})",
      R"({"instances":[{"x":"a\u00e9\n"},{"x":{"b64":"QUJD"}},{"x":""}]})",
      R"({"instances":[255,0,12,127,-128,-1,99]})"};
  const char kBytes[] = "0123456789.,-+eE[]{}\":\\ \tNaIntfrue\x01\xC3";
  for (const char *dtype : {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32",
                            "int64", "uint64", "bool", "string"}) {
    const SignatureSet signatures = one_input(dtype);
    for (int i = 0; i < 20'000; ++i) {
      std::string body = kBodies[random() % std::size(kBodies)];
      for (std::uint64_t edits = random() % 3; edits-- > 0;) {
        const std::size_t at = random() % body.size();
        const char byte = kBytes[random() % (sizeof kBytes - 1)];
        const std::uint64_t kind = random() % 3;
        if (kind == 0)
          body[at] = byte;
        else if (kind == 1)
          body.erase(at, 1);
        else
          body.insert(at, 1, byte);
      }
      const std::string padded = body + std::string(100, ' ');
      HeapSink near(1);
      HeapSink far(1);
      const auto a = decode_predict(bytes_of(body), signatures, {}, near);
      const auto b = decode_predict(bytes_of(padded), signatures, {}, far);
      BOOST_REQUIRE_MESSAGE(static_cast<bool>(a) == static_cast<bool>(b), body);
      if (!a) {
        BOOST_REQUIRE_MESSAGE(a.error().code == b.error().code, body);
        if (a.error().offset < body.size()) // else the end itself is to blame, and it moved
          BOOST_REQUIRE_MESSAGE(a.error().offset == b.error().offset, body);
        continue;
      }
      const TensorView x = near.tensors()[0].view();
      const TensorView y = far.tensors()[0].view();
      BOOST_REQUIRE_MESSAGE((x.shape == y.shape && x.bytes == y.bytes), body);
      if (x.bytes != 0)
        BOOST_REQUIRE_MESSAGE(std::memcmp(x.data, y.data, x.bytes) == 0, body);
    }
  }
}

// With one input of strings the text is decoded while its end is still unknown, and nobody looks at
// the whole body before. An input of another dtype beside it rules out both.
BOOST_AUTO_TEST_CASE(base64_is_read_alike_with_another_input_beside_it) {
  const SignatureSet alone = one_input("string");
  TensorSpec number;
  number.dtype = DType::kInt32;
  std::vector<Signature> all;
  all.emplace_back("serving_default", Signature::Specs{{"w", number}, alone.all()[0].inputs()[0]},
                   Signature::Specs());
  const SignatureSet beside(std::move(all));
  const std::string_view extra = "\"w\":1,";

  std::mt19937_64 random(8);
  const char *const kPieces[] = {"\"", "\\", "\\n", "\\/", "\\u0041", " ",        "\n", "=",
                                 ".",  "!",  "-_",  "",    "\x80",    "\xC3\xA9", "}",  "\x01"};
  std::size_t good = 0;
  for (int i = 0; i < 4'000; ++i) {
    std::string text(4 * (random() % (i % 16 == 0 ? 2500 : 100)), 'A');
    for (char &c : text)
      c = "abcXYZ0189+/-_"[random() % 14];
    text += std::array{"", "QQ==", "QUI=", "QQ", "Q"}[random() % 5];
    std::string tail = "\"}]}}" + std::string(random() % 2, ' ');
    std::string value = "[{\"b64\":" + std::string(random() % 3, ' ') + "\"" + text + tail;
    for (std::uint64_t edits = random() % 3; edits-- > 0;)
      value.insert(random() % value.size(), kPieces[random() % std::size(kPieces)]);
    const std::string one = "{\"inputs\":{\"x\":" + value;
    std::string two = one;
    two.insert(std::string_view("{\"inputs\":{").size(), extra);

    DecodeOptions options;
    options.simd = available_simd()[random() % available_simd().size()];
    HeapSink of_one(1);
    HeapSink of_two(2);
    const auto a = decode_predict(bytes_of(one), alone, options, of_one);
    const auto b = decode_predict(bytes_of(two), beside, options, of_two);
    BOOST_REQUIRE_MESSAGE(static_cast<bool>(a) == static_cast<bool>(b), one);
    if (!a) {
      BOOST_REQUIRE_MESSAGE(a.error().code == b.error().code, one);
      BOOST_REQUIRE_MESSAGE(a.error().offset + extra.size() == b.error().offset, one);
      continue;
    }
    ++good;
    const TensorView x = of_one.tensors()[0].view();
    const TensorView y = of_two.tensors()[1].view();
    BOOST_REQUIRE_MESSAGE((x.shape == y.shape && x.bytes == y.bytes), one);
    BOOST_REQUIRE_MESSAGE(std::memcmp(x.data, y.data, x.bytes) == 0, one);
  }
  BOOST_TEST(good > 500);
}

} // namespace
} // namespace headrace
