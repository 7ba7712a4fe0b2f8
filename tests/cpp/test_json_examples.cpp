#include <boost/test/unit_test.hpp>

#include <memory>
#include <random>

#include "example_case.hpp"
#include "headrace/answer.hpp"
#include "headrace/request_decoder.hpp"

namespace headrace {
namespace {

using test::ExampleCase;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TensorSpec vector_of(DType dtype) { return {dtype, "", true, {std::nullopt}}; }

// Signatures of each kind of defect, named after it.
SignatureSet signatures() {
  const TensorSpec strings = vector_of(DType::kString);
  const TensorSpec floats = vector_of(DType::kFloat32);
  std::vector<Signature> all;
  const auto add = [&](const char *name, Signature::Specs inputs, Signature::Specs outputs) {
    all.emplace_back(name, std::move(inputs), std::move(outputs),
                     std::vector<std::string>{"declared"});
  };
  add("classify", {{"inputs", strings}}, {{"scores", floats}, {"classes", strings}});
  add("regress", {{"inputs", strings}}, {{"outputs", floats}});
  add("two_inputs", {{"inputs", strings}, {"x", floats}}, {{"scores", floats}});
  add("other_input", {{"x", strings}}, {{"scores", floats}});
  add("float_input", {{"inputs", floats}}, {{"scores", floats}});
  add("three_outputs", {{"inputs", strings}}, {{"scores", floats}, {"a", floats}, {"b", floats}});
  add("other_output", {{"inputs", strings}}, {{"y", floats}});
  return SignatureSet(std::move(all));
}

Result<PredictRequest> decode(Method method, const std::string &signature, TensorSink &sink,
                              const std::string &examples = R"([{"x":1}])") {
  const std::string body =
      R"({"signature_name":")" + signature + R"(","examples":)" + examples + "}";
  const SignatureSet set = signatures();
  DecodeOptions options;
  options.method = method;
  return RequestDecoder(bytes_of(body), set, options).decode(sink);
}

std::string refusal(Method method, const std::string &signature) {
  HeapSink sink(1);
  const auto result = decode(method, signature, sink);
  return result ? "" : result.error().message;
}

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

BOOST_AUTO_TEST_CASE(every_vector_gives_what_it_says) {
  std::size_t count = 0;
  for (const ExampleCase &one : test::load_example_cases()) {
    const SignatureSet set = one.signatures();
    const std::string wrong =
        test::judge(one, decode_examples(bytes_of(one.body), &set, one.options));
    BOOST_TEST(wrong.empty(), one.id << ": " << wrong);
    ++count;
  }
  BOOST_TEST(count > 100);
}

BOOST_AUTO_TEST_CASE(a_body_in_memory_of_its_exact_size_gives_the_same) {
  for (const ExampleCase &one : test::load_example_cases())
    for (const std::size_t shift : {0, 1, 7}) {
      const auto memory = std::make_unique<char[]>(shift + one.body.size());
      std::copy(one.body.begin(), one.body.end(), memory.get() + shift);
      const SignatureSet set = one.signatures();
      const std::string wrong =
          test::judge(one, decode_examples(bytes_of({memory.get() + shift, one.body.size()}), &set,
                                           one.options));
      BOOST_TEST(wrong.empty(), one.id << ": " << wrong);
    }
}

BOOST_AUTO_TEST_CASE(a_classify_signature_takes_examples_as_its_input) {
  HeapSink sink(1);
  const auto result = decode(Method::kClassify, "classify", sink, R"([{"declared":1},{"x":1}])");
  BOOST_REQUIRE(result);
  BOOST_TEST(result.value().signature_name == "classify");
  BOOST_TEST(result.value().rows == 2);
  const TensorView tensor = sink.tensors()[0].view();
  BOOST_TEST(test::read_example(tensor.string_at(0)).at("declared").kind == "float");
  BOOST_TEST(test::read_example(tensor.string_at(1)).at("x").kind == "int64");
}

BOOST_AUTO_TEST_CASE(the_other_signatures_are_refused_with_the_reason) {
  const struct {
    Method method;
    const char *signature;
    const char *message;
  } cases[] = {
      {Method::kClassify, "nosuch", "No signature was found with the name: nosuch"},
      {Method::kClassify, "clasify", "did you mean 'classify'?"},
      {Method::kRegress, "nosuch", "No signature was found with the name: nosuch"},
      {Method::kClassify, "two_inputs", "Expected one input Tensor."},
      {Method::kClassify, "other_input",
       "No classification inputs found in SignatureDef: other_input"},
      {Method::kRegress, "other_input", "No regression inputs found in SignatureDef: other_input"},
      {Method::kClassify, "float_input", "takes float"},
      {Method::kClassify, "three_outputs", "Expected one or two output Tensors, found 3"},
      {Method::kClassify, "other_output", "at least one of \"classes\" or \"scores\""},
      {Method::kClassify, "regress", "signatures that have them: 'classify'"},
      {Method::kRegress, "classify", "Expected one output Tensor."},
      {Method::kRegress, "other_output", "No regression outputs found in SignatureDef: "},
  };
  for (const auto &one : cases) {
    const std::string message = refusal(one.method, one.signature);
    BOOST_TEST(contains(message, one.message), one.signature << ": " << message);
  }
  BOOST_TEST(refusal(Method::kClassify, "classify").empty());
  BOOST_TEST(refusal(Method::kRegress, "regress").empty());
}

BOOST_AUTO_TEST_CASE(a_fault_in_the_examples_wins_over_one_of_the_signature) {
  HeapSink sink(1);
  const auto result = decode(Method::kClassify, "nosuch", sink, "[1]");
  BOOST_REQUIRE(!result);
  BOOST_TEST(contains(result.error().message, "Example must be JSON object"));
}

BOOST_AUTO_TEST_CASE(the_context_counts_once_for_each_example_against_the_limit) {
  const std::string body = R"({"context":{"c":")" + std::string(1000, 'a') +
                           R"("},"examples":[{},{},{},{}],"signature_name":"regress"})";
  const SignatureSet set = signatures();
  DecodeOptions options;
  options.method = Method::kRegress;
  const RequestDecoder decoder(bytes_of(body), set, options);
  BOOST_TEST(decoder.bound() > 4000);
  HeapSink large(1, 8192);
  BOOST_TEST(static_cast<bool>(decoder.decode(large)));
  HeapSink small(1, 3000);
  const auto refused = decoder.decode(small);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == ErrorCode::kTooLarge));
}

struct Output {
  std::string name;
  DType dtype;
  std::vector<std::uint64_t> dims;
  std::vector<std::byte> data{};

  NamedTensor view() {
    const Shape shape(dims);
    const std::uint64_t n = shape.elements();
    data.assign(dtype == DType::kString ? 8 * (n + 1) : 4 * n, std::byte{0}); // empty, or zeros
    return {name, {dtype, shape, data.data(), data.size()}};
  }
};

std::string answer(Method method, std::uint64_t rows, std::vector<Output> outputs) {
  std::vector<NamedTensor> tensors;
  for (Output &output : outputs)
    tensors.push_back(output.view());
  ByteBuffer text;
  const auto result = encode_answer(tensors, {method, Format::kRow, rows}, {}, text);
  return result ? std::string(text.view()) : result.error().message;
}

BOOST_AUTO_TEST_CASE(answers_have_the_form_of_their_method) {
  constexpr auto kFloat = DType::kFloat32;
  constexpr auto kString = DType::kString;
  BOOST_TEST(answer(Method::kPredict, 1, {{"scores", kFloat, {1, 1}}}) ==
             R"({"predictions":[[0.0]]})");
  BOOST_TEST(answer(Method::kClassify, 2, {{"scores", kFloat, {2, 1}}}) ==
             R"({"results":[[["",0.0]],[["",0.0]]]})");
  BOOST_TEST(answer(Method::kClassify, 1, {{"classes", kString, {1, 2}}, {"k", kFloat, {3}}}) ==
             R"({"results":[[["",0.0],["",0.0]]]})");
  BOOST_TEST(answer(Method::kClassify, 1, {{"scores", kFloat, {1, 0}}}) == R"({"results":[[]]})");
  BOOST_TEST(answer(Method::kRegress, 2, {{"outputs", kFloat, {2, 1}}}) ==
             R"({"results":[0.0,0.0]})");
  BOOST_TEST(answer(Method::kRegress, 1, {{"outputs", kFloat, {1}}}) == R"({"results":[0.0]})");
}

BOOST_AUTO_TEST_CASE(outputs_of_other_types_and_shapes_are_refused) {
  constexpr auto kFloat = DType::kFloat32;
  constexpr auto kString = DType::kString;
  const struct {
    Method method;
    std::vector<Output> outputs;
    const char *message;
  } cases[] = {
      {Method::kClassify, {{"y", kFloat, {2, 1}}}, "neither \"classes\" nor \"scores\""},
      {Method::kClassify, {{"scores", kFloat, {2}}}, "[batch_size num_classes] but got [2]"},
      {Method::kClassify, {{"scores", kFloat, {3, 1}}}, "batch size of 2. Got: 3"},
      {Method::kClassify, {{"scores", kString, {2, 1}}}, "scores Tensor of DT_FLOAT. Got: string"},
      {Method::kClassify, {{"classes", kFloat, {2, 1}}}, "classes Tensor of DT_STRING. Got: float"},
      {Method::kClassify,
       {{"classes", kString, {2, 1}}, {"scores", kFloat, {2, 3}}},
       "should match in dim_size(1). Got 1 vs. 3"},
      {Method::kRegress, {{"scores", kFloat, {2}}}, "did not give \"outputs\""},
      {Method::kRegress, {{"outputs", kFloat, {2, 2}}}, "[batch_size] or [batch_size, 1]"},
      {Method::kRegress, {{"outputs", kFloat, {}}}, "[batch_size] or [batch_size, 1]"},
      {Method::kRegress, {{"outputs", kFloat, {3}}}, "batch size to be 2 but got 3"},
      {Method::kRegress, {{"outputs", kString, {2}}}, "Expected type float"},
  };
  for (const auto &one : cases) {
    const std::string message = answer(one.method, 2, one.outputs);
    BOOST_TEST(contains(message, one.message), message);
  }
}

// One byte of a valid body changed, removed or doubled: an answer, whose messages are well formed
// and in proportion to the body, or an error with a place within it.
BOOST_AUTO_TEST_CASE(mutated_bodies_are_decoded_or_refused) {
  const std::vector<ExampleCase> cases = test::load_example_cases();
  std::mt19937_64 random(11);
  const char kBytes[] = "0123456789.,-+eE[]{}\":\\ \tNaIntfrubs64\x01\xC3";
  for (int i = 0; i < 100'000; ++i) {
    std::string body = cases[random() % cases.size()].body;
    if (body.empty() || body.size() > 1000)
      continue;
    for (std::uint64_t edits = 1 + random() % 3; edits-- > 0 && !body.empty();) {
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
    const auto result = decode_examples(bytes_of(body), nullptr, {});
    if (!result) {
      BOOST_REQUIRE(result.error().offset <= body.size());
      continue;
    }
    const ExamplesRequest &request = result.value();
    BOOST_REQUIRE_MESSAGE(request.examples.size() + request.context.size() <= 4 * body.size(),
                          body);
    std::uint64_t begin = 0;
    for (const std::uint64_t end : request.ends) {
      BOOST_REQUIRE_NO_THROW(
          test::read_example(request.examples.view().substr(begin, end - begin)));
      begin = end;
    }
  }
}

} // namespace
} // namespace headrace
