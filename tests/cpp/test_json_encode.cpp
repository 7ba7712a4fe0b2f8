#include <boost/test/unit_test.hpp>

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "headrace/json_encode.hpp"

using namespace headrace;

namespace {

/// Memory and view of a tensor of numbers.
template <class Value> struct Numbers {
  std::vector<Value> values;
  TensorView view;

  Numbers(DType dtype, std::vector<std::uint64_t> dims, std::vector<Value> elements)
      : values(std::move(elements)),
        view{dtype, Shape(dims), reinterpret_cast<const std::byte *>(values.data()),
             values.size() * sizeof(Value)} {}
};

/// Memory and view of a tensor of strings, in the layout of tensor.hpp.
struct Strings {
  std::vector<std::uint64_t> words;
  TensorView view;

  Strings(std::vector<std::uint64_t> dims, const std::vector<std::string> &elements) {
    std::string bytes;
    std::vector<std::uint64_t> offsets{0};
    for (const std::string &element : elements) {
      bytes += element;
      offsets.push_back(bytes.size());
    }
    words.resize((bytes.size() + 7) / 8);
    if (!bytes.empty()) // else words.data() may be null, which memcpy must not see
      std::memcpy(words.data(), bytes.data(), bytes.size());
    words.insert(words.end(), offsets.begin(), offsets.end());
    view = {DType::kString, Shape(dims), reinterpret_cast<const std::byte *>(words.data()),
            8 * words.size()};
  }
};

std::string encoded(const std::vector<NamedTensor> &outputs, Format format,
                    const EncodeOptions &options = {}) {
  ByteBuffer out;
  const auto result = encode_predict(outputs, format, options, out);
  BOOST_REQUIRE(result);
  return std::string(out.view());
}

Error refused(const std::vector<NamedTensor> &outputs, Format format,
              const EncodeOptions &options = {}) {
  ByteBuffer out;
  out.append("before");
  const auto result = encode_predict(outputs, format, options, out);
  BOOST_REQUIRE(!result);
  BOOST_TEST(out.view() == "before");
  return result.error();
}

const Numbers<float> kFloats(DType::kFloat32, {2, 2}, {1, 2.5F, 3, -4});
const Numbers<std::int64_t> kInts(DType::kInt64, {2}, {5, -6});

} // namespace

BOOST_AUTO_TEST_CASE(row_and_columnar_in_compact_form) {
  const std::vector<NamedTensor> both{{"q", kInts.view}, {"p", kFloats.view}};
  BOOST_TEST(encoded({{"y", kFloats.view}}, Format::kRow) ==
             R"({"predictions":[[1.0,2.5],[3.0,-4.0]]})");
  BOOST_TEST(encoded({{"y", kFloats.view}}, Format::kColumnar) ==
             R"({"outputs":[[1.0,2.5],[3.0,-4.0]]})");
  BOOST_TEST(encoded(both, Format::kRow) ==
             R"({"predictions":[{"p":[1.0,2.5],"q":5},{"p":[3.0,-4.0],"q":-6}]})");
  BOOST_TEST(encoded(both, Format::kColumnar) ==
             R"({"outputs":{"p":[[1.0,2.5],[3.0,-4.0]],"q":[5,-6]}})");
}

BOOST_AUTO_TEST_CASE(pretty_form_is_tfservings) {
  const EncodeOptions pretty{.pretty = true};
  BOOST_TEST(encoded({{"y", kFloats.view}}, Format::kRow, pretty) ==
             "{\n    \"predictions\": [[1.0, 2.5], [3.0, -4.0]\n    ]\n}");
  BOOST_TEST(encoded({{"y", kInts.view}}, Format::kColumnar, pretty) ==
             "{\n    \"outputs\": [\n        5,\n        -6\n    ]\n}");
  BOOST_TEST(
      encoded({{"p", kFloats.view}, {"q", kInts.view}}, Format::kRow, pretty) ==
      "{\n    \"predictions\": [\n        {\n            \"p\": [1.0, 2.5],\n            \"q\": "
      "5\n        },\n"
      "        {\n            \"p\": [3.0, -4.0],\n            \"q\": -6\n        }\n    ]\n}");
  const Strings strings({1}, {"hi"});
  BOOST_TEST(encoded({{"y_bytes", strings.view}}, Format::kRow, pretty) ==
             "{\n    \"predictions\": [{\n            \"b64\": \"aGk=\"\n        }\n    ]\n}");
}

BOOST_AUTO_TEST_CASE(runs_longer_than_a_chunk_keep_their_separators) {
  std::vector<std::uint8_t> values(1000);
  std::string expected;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::uint8_t>(i);
    expected += (i == 0 ? "" : ",") + std::to_string(values[i]);
  }
  const Numbers<std::uint8_t> numbers(DType::kUint8, {1000}, values);
  BOOST_TEST(encoded({{"y", numbers.view}}, Format::kRow) ==
             "{\"predictions\":[" + expected + "]}");
}

BOOST_AUTO_TEST_CASE(scalars_and_empty_tensors) {
  const Numbers<std::uint8_t> truth(DType::kBool, {}, {1});
  const Numbers<float> none(DType::kFloat32, {0, 3}, {});
  const Numbers<float> hollow(DType::kFloat32, {2, 0, 3}, {});
  BOOST_TEST(encoded({{"y", truth.view}}, Format::kColumnar) == R"({"outputs":true})");
  BOOST_TEST(encoded({{"y", none.view}}, Format::kRow) == R"({"predictions":[]})");
  BOOST_TEST(encoded({{"y", hollow.view}}, Format::kRow) == R"({"predictions":[[],[]]})");
  BOOST_TEST(encoded({{"y", Strings({0}, {}).view}}, Format::kColumnar) == R"({"outputs":[]})");
}

BOOST_AUTO_TEST_CASE(unsupported_dtypes_are_refused_unless_empty) {
  const NamedTensor full{
      "y", {DType::kUnsupported, Shape(std::vector<std::uint64_t>{1}), nullptr, 0}, "qint8"};
  const NamedTensor empty{
      "y", {DType::kUnsupported, Shape(std::vector<std::uint64_t>{0}), nullptr, 0}, "qint8"};
  const Error error = refused({full}, Format::kRow);
  BOOST_TEST((error.code == ErrorCode::kUnsupportedDtype));
  BOOST_TEST(error.message.starts_with("Failed to write JSON value for tensor type: qint8"));
  BOOST_TEST(encoded({empty}, Format::kColumnar) == R"({"outputs":[]})");
  // Nobody asks for it, so it does no harm.
  BOOST_TEST(encoded({{"a", kInts.view}, full}, Format::kColumnar, {.outputs = {"a"}}) ==
             R"({"outputs":[5,-6]})");
}

BOOST_AUTO_TEST_CASE(errors_leave_the_buffer_as_it_was) {
  const Numbers<float> nan(DType::kFloat32, {2, 2},
                           {1, 2, std::numeric_limits<float>::quiet_NaN(), 4});
  const Strings bad({2}, {"fine", "\xFF"});
  Error error = refused({{"y", nan.view}}, Format::kRow, {.non_finite = NonFinite::kError});
  BOOST_TEST((error.code == ErrorCode::kNonFinite));
  BOOST_TEST(error.path == "predictions[1][0]");
  error = refused({{"p", kInts.view}, {"s", bad.view}}, Format::kColumnar);
  BOOST_TEST((error.code == ErrorCode::kInvalidUtf8));
  BOOST_TEST(error.path == "outputs.s[1]");
  error = refused({{"p", kInts.view}, {"s", Numbers<float>(DType::kFloat32, {}, {1}).view}},
                  Format::kRow);
  BOOST_TEST((error.code == ErrorCode::kShape));
  error = refused({{"p", kInts.view}, {"s", Numbers<float>(DType::kFloat32, {3}, {1, 2, 3}).view}},
                  Format::kRow);
  BOOST_TEST((error.code == ErrorCode::kBatchSize));
  error = refused({{"p", kInts.view}}, Format::kRow, {.outputs = {"nope"}});
  BOOST_TEST((error.code == ErrorCode::kUnknownOutput));
  BOOST_TEST((refused({}, Format::kRow).code == ErrorCode::kStructure));
}

BOOST_AUTO_TEST_CASE(strings_are_escaped_and_bytes_are_base64) {
  const Strings strings(
      {3}, {"a\"b\\c/", std::string("\0\x1F\n\x7F", 4), "\xC3\xA9 and more than eight bytes\t"});
  BOOST_TEST(encoded({{"y", strings.view}}, Format::kRow) ==
             "{\"predictions\":[\"a\\\"b\\\\c/\",\"\\u0000\\u001F\\n\x7F\","
             "\"\xC3\xA9 and more than eight bytes\\t\"]}");
  const Strings bytes({4}, {"", "a", "ab", "abc"});
  BOOST_TEST(encoded({{"y_bytes", bytes.view}}, Format::kColumnar) ==
             R"({"outputs":[{"b64":""},{"b64":"YQ=="},{"b64":"YWI="},{"b64":"YWJj"}]})");
}

BOOST_AUTO_TEST_CASE(invalid_utf8_can_become_base64) {
  const Strings strings({2}, {"fine", "\xFF\xFE"});
  BOOST_TEST(encoded({{"y", strings.view}}, Format::kRow, {.invalid_utf8_as_b64 = true}) ==
             R"({"predictions":["fine",{"b64":"//4="}]})");
}

BOOST_AUTO_TEST_CASE(error_bodies_are_valid_whatever_the_message) {
  ByteBuffer out;
  write_error_body("bad \"\xFF\" \xE2\x82", out);
  BOOST_TEST(out.view() == "{\n    \"error\": \"bad \\\"\xEF\xBF\xBD\\\" \xEF\xBF\xBD\"\n}");
}

BOOST_AUTO_TEST_CASE(classify_and_regress_results) {
  const std::vector<std::uint64_t> counts{2, 0, 1};
  const Strings labels({3}, {"a", "b", "c"});
  const Numbers<float> scores(DType::kFloat32, {3}, {0.5F, 0.25F, 1});
  ByteBuffer out;
  BOOST_TEST(bool(encode_classify({counts, labels.view, scores.view}, {}, out)));
  BOOST_TEST(out.view() == R"({"results":[[["a",0.5],["b",0.25]],[],[["c",1.0]]]})");
  out.clear();
  BOOST_TEST(bool(encode_classify({counts, std::nullopt, std::nullopt}, {.pretty = true}, out)));
  BOOST_TEST(out.view() ==
             "{\n    \"results\": [[[\"\", 0.0], [\"\", 0.0]], [], [[\"\", 0.0]]\n    ]\n}");
  out.clear();
  BOOST_TEST(bool(encode_regress(scores.view, {.pretty = true}, out)));
  BOOST_TEST(out.view() == "{\n    \"results\": [0.5, 0.25, 1.0]\n}");
  BOOST_TEST(!encode_classify({{}, std::nullopt, std::nullopt}, {}, out));
  BOOST_TEST(!encode_regress(kFloats.view, {}, out));
}
