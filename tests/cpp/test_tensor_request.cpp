#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "headrace/heap_sink.hpp"
#include "headrace/tensor_request.hpp"

using namespace headrace;

namespace {

using Dims = std::vector<std::optional<std::uint64_t>>;

TensorSpec spec_of(DType dtype, Dims dims) { return {dtype, "", true, std::move(dims)}; }

// "serving_default": one input of 3 columns. "several": one of each kind. "nothing": no input.
// "any": an input without a declared shape. "quantized": an input of a dtype without a form.
const SignatureSet &signatures() {
  static const SignatureSet set(std::vector<Signature>{
      Signature("serving_default", {{"x", spec_of(DType::kFloat32, {std::nullopt, 3})}}, {}),
      Signature("several",
                {{"c", spec_of(DType::kString, {std::nullopt})},
                 {"a", spec_of(DType::kInt64, {std::nullopt})},
                 {"b", spec_of(DType::kBool, {std::nullopt, 1})}},
                {}),
      Signature("nothing", {}, {}), Signature("any", {{"x", {DType::kInt8, "", false, {}}}}, {}),
      Signature("quantized", {{"x", {DType::kUnsupported, "qint8", true, {std::nullopt}}}}, {})});
  return set;
}

Shape shape_of(const std::vector<std::uint64_t> &dims) { return Shape(dims); }

template <class T>
NamedTensor tensor_of(std::string_view name, DType dtype, const std::vector<std::uint64_t> &dims,
                      const std::vector<T> &values) {
  return {name,
          {dtype, shape_of(dims), reinterpret_cast<const std::byte *>(values.data()),
           values.size() * sizeof(T)}};
}

const std::vector<float> kSix = {1, 2, 3, 4, 5, 6};

NamedTensor x_of(const std::vector<std::uint64_t> &dims) {
  return tensor_of("x", DType::kFloat32, dims, kSix);
}

// The code and the message of what is refused.
std::pair<ErrorCode, std::string> refused(std::string_view signature,
                                          const std::vector<NamedTensor> &tensors) {
  const TensorRequest request({signature, tensors}, signatures());
  BOOST_TEST(request.bound() == 0U);
  HeapSink sink(0);
  const auto result = request.decode(sink);
  BOOST_REQUIRE(!result);
  BOOST_TEST(result.error().offset == kNoOffset);
  return {result.error().code, result.error().message};
}

void expect(const std::pair<ErrorCode, std::string> &found, ErrorCode code,
            const std::string &message) {
  BOOST_TEST(name_of(found.first) == name_of(code));
  BOOST_TEST(found.second == message);
}

} // namespace

BOOST_AUTO_TEST_CASE(tensor_is_copied_as_it_is) {
  const std::vector<NamedTensor> tensors = {x_of({2, 3})};
  const TensorRequest request({"serving_default", tensors, Format::kColumnar}, signatures());
  BOOST_TEST(request.bound() == 24U);
  HeapSink sink(0);
  const auto result = request.decode(sink);
  BOOST_REQUIRE(static_cast<bool>(result));
  BOOST_TEST((result.value().format == Format::kColumnar));
  BOOST_TEST(result.value().rows == 2U);
  const TensorView copy = sink.tensors()[0].view();
  BOOST_TEST((copy.shape == tensors[0].tensor.shape));
  BOOST_TEST(copy.bytes == 24U);
  BOOST_TEST(std::memcmp(copy.data, kSix.data(), 24) == 0);
  BOOST_TEST(reinterpret_cast<std::uintptr_t>(copy.data) % kTensorAlignment == 0U);
}

BOOST_AUTO_TEST_CASE(inputs_come_in_any_order_and_of_any_dtype) {
  const std::vector<std::int64_t> a = {-1, 2};
  const std::vector<std::uint8_t> b = {1, 0};
  std::array<std::uint64_t, 4> c{}; // "hi", padding, then the offsets 0, 2, 2
  std::memcpy(c.data(), "hi", 2);
  c[2] = c[3] = 2;
  const std::vector<NamedTensor> tensors = {
      {"c", {DType::kString, shape_of({2}), reinterpret_cast<const std::byte *>(c.data()), 32}},
      tensor_of("b", DType::kBool, {2, 1}, b),
      tensor_of("a", DType::kInt64, {2}, a)};
  HeapSink sink(0);
  const auto result = TensorRequest({"several", tensors}, signatures()).decode(sink);
  BOOST_REQUIRE(static_cast<bool>(result));
  BOOST_TEST(result.value().rows == 2U);
  BOOST_TEST(std::memcmp(sink.tensors()[0].view().data, a.data(), 16) == 0);
  BOOST_TEST(std::memcmp(sink.tensors()[1].view().data, b.data(), 2) == 0);
  BOOST_TEST(sink.tensors()[2].view().string_at(0) == "hi");
  BOOST_TEST(sink.tensors()[2].view().string_at(1).empty());
}

BOOST_AUTO_TEST_CASE(rows_are_none_of_inputs_that_do_not_share_them) {
  const std::vector<std::int8_t> one = {7};
  for (const auto &dims : {std::vector<std::uint64_t>{}, std::vector<std::uint64_t>{1}}) {
    const std::vector<NamedTensor> tensors = {tensor_of("x", DType::kInt8, dims, one)};
    HeapSink sink(0);
    const auto result = TensorRequest({"any", tensors}, signatures()).decode(sink);
    BOOST_REQUIRE(static_cast<bool>(result));
    BOOST_TEST(result.value().rows == dims.size());
  }
  const std::vector<std::int64_t> a = {1};
  const std::vector<std::uint8_t> b = {1, 0};
  const std::array<std::uint64_t, 2> c{};
  const std::vector<NamedTensor> tensors = {
      {"c", {DType::kString, shape_of({1}), reinterpret_cast<const std::byte *>(c.data()), 16}},
      tensor_of("b", DType::kBool, {2}, b),
      tensor_of("a", DType::kInt64, {1}, a)};
  HeapSink sink(0);
  const auto result = TensorRequest({"several", tensors}, signatures()).decode(sink);
  BOOST_REQUIRE(static_cast<bool>(result));
  BOOST_TEST(result.value().rows == 0U);
}

BOOST_AUTO_TEST_CASE(tensor_without_elements_needs_no_memory) {
  const std::vector<float> none;
  const std::vector<NamedTensor> tensors = {tensor_of("x", DType::kFloat32, {0, 3}, none)};
  HeapSink sink(0, 0); // takes nothing
  const auto result = TensorRequest({"serving_default", tensors}, signatures()).decode(sink);
  BOOST_REQUIRE(static_cast<bool>(result));
  BOOST_TEST((sink.tensors()[0].view().shape == shape_of({0, 3})));
}

BOOST_AUTO_TEST_CASE(tensor_that_the_sink_has_no_room_for_is_too_large) {
  const std::vector<NamedTensor> tensors = {x_of({2, 3})};
  HeapSink sink(0, 8);
  const auto result = TensorRequest({"serving_default", tensors}, signatures()).decode(sink);
  BOOST_REQUIRE(!result);
  BOOST_TEST((result.error().code == ErrorCode::kTooLarge));
}

BOOST_AUTO_TEST_CASE(names_that_do_not_fit_the_signature_are_refused) {
  expect(refused("serving_defautl", {}), ErrorCode::kUnknownSignature,
         "Serving signature name: \"serving_defautl\" not found in signature def (those that "
         "exist: 'any', 'nothing', 'quantized', 'serving_default', 'several'; did you mean "
         "'serving_default'?)");
  expect(refused("nothing", {}), ErrorCode::kStructure,
         "Failed to get input map for signature: nothing");
  expect(refused("serving_default", {}), ErrorCode::kMissingInput,
         "Missing named input: x (the inputs are x)");
  expect(refused("serving_default", {x_of({2, 3}), x_of({2, 3})}), ErrorCode::kDuplicateInput,
         "Input 'x' is given twice");
  NamedTensor y = x_of({2, 3});
  y.name = "y";
  expect(refused("serving_default", {y}), ErrorCode::kUnknownInput,
         "No input is named y (those that exist: 'x')");
  const std::string long_name(1000, 'n');
  y.name = long_name;
  BOOST_TEST(refused("serving_default", {y}).second.size() < 400U);
}

BOOST_AUTO_TEST_CASE(dtype_and_shape_that_differ_are_named_with_what_was_expected) {
  const std::vector<double> doubles = {1, 2, 3};
  expect(refused("serving_default", {tensor_of("x", DType::kFloat64, {1, 3}, doubles)}),
         ErrorCode::kType, "Input 'x' has dtype float64, expected float32");
  NamedTensor complex{"x", {DType::kUnsupported, shape_of({1, 3}), nullptr, 0}, "complex64"};
  expect(refused("serving_default", {complex}), ErrorCode::kType,
         "Input 'x' has dtype complex64, expected float32");
  expect(refused("quantized", {x_of({6})}), ErrorCode::kUnsupportedDtype,
         "Input 'x' takes qint8, which cannot be sent");
  expect(refused("serving_default", {x_of({3, 2})}), ErrorCode::kShape,
         "Input 'x' has shape [3,2], expected [?,3]");
  expect(refused("serving_default", {x_of({6})}), ErrorCode::kShape,
         "Input 'x' has shape [6], expected [?,3]");
}

BOOST_AUTO_TEST_CASE(extents_of_nothing_are_bounded) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  const std::vector<std::int8_t> none;
  const auto any = [&](const std::vector<std::uint64_t> &dims) {
    return std::vector{tensor_of("x", DType::kInt8, dims, none)};
  };
  for (const auto &dims : {std::vector<std::uint64_t>{0}, {1 << 20, 0}, {0, 1024, 1024}, {0, 0}}) {
    const auto tensors = any(dims);
    HeapSink sink(0);
    BOOST_TEST(static_cast<bool>(TensorRequest({"any", tensors}, signatures()).decode(sink)));
  }
  for (const auto &dims : {std::vector<std::uint64_t>{(1 << 20) + 1, 0},
                           {0, kHuge, 4},
                           {4, kHuge, 0},
                           {2048, 0, 1024}})
    BOOST_TEST((refused("any", any(dims)).first == ErrorCode::kShape));
  BOOST_TEST(refused("any", any({1 << 21, 0})).second ==
             "Input 'x' has shape [2097152,0], expected extents that multiply to 1048576 at most, "
             "since there are no elements");
}

BOOST_AUTO_TEST_CASE(bytes_of_a_bool_that_are_no_bool_are_refused) {
  const std::vector<std::int64_t> a = {1, 2};
  const std::vector<std::uint8_t> b = {1, 2};
  const std::vector<NamedTensor> tensors = {tensor_of("a", DType::kInt64, {2}, a),
                                            tensor_of("b", DType::kBool, {2}, b),
                                            tensor_of("c", DType::kInt64, {2}, a)};
  expect(refused("several", tensors), ErrorCode::kRange,
         "Input 'b' has the byte 2 at element 1, expected a bool, 0 or 1");
}
