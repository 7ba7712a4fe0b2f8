// Fuzzes the predict decoder. Byte 0 of an input chooses the signature, byte 1 the options; the
// rest is the body (tests/fuzz/decode_seeds.py writes such inputs from the vectors).
//
// Beyond what the sanitizers see: a body is read alike near the end of memory and far from it,
// errors have a place within the body, check_predict and the decoder agree about syntax, no more is
// asked of a sink than decoded_bytes_bound says, and all variants of the kernels give the same.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/decode_agreement.hpp"
#include "headrace/heap_sink.hpp"
#include "headrace/json_decode.hpp"

using namespace headrace;

namespace {

void require(bool holds, const char *what) {
  if (!holds) {
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
  }
}

TensorSpec spec(const char *dtype) { return {dtype_from_name(dtype).value(), dtype, false, {}}; }

// One set per dtype with one input, two with several inputs, one with several signatures.
const std::vector<SignatureSet> &signature_sets() {
  static const std::vector<SignatureSet> sets = [] {
    std::vector<SignatureSet> made;
    const auto add = [&](std::vector<Signature> signatures) {
      made.emplace_back(std::move(signatures));
    };
    for (const char *dtype :
         {"float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
          "uint16", "uint32", "uint64", "bool", "string", "complex64"})
      add({Signature("serving_default", {{"x", spec(dtype)}}, {})});
    add({Signature("serving_default", {{"a", spec("int32")}, {"b", spec("float32")}}, {})});
    add({Signature("serving_default", {{"s", spec("string")}, {"x", spec("float64")}}, {})});
    TensorSpec shaped = spec("float32");
    shaped.known_rank = true;
    shaped.dims = {std::nullopt, 3};
    add({Signature("serving_default", {{"x", shaped}}, {}),
         Signature("s1", {{"x", spec("uint8")}}, {})});
    return made;
  }();
  return sets;
}

DecodeOptions options_of(std::uint8_t bits) {
  DecodeOptions options;
  options.check_shapes = (bits & 1) != 0;
  options.integral_floats = (bits & 2) != 0;
  options.bare_list = (bits & 4) != 0;
  options.finite_only = (bits & 8) != 0;
  options.keep_extra = (bits & 16) != 0;
  options.max_depth = (bits & 32) != 0 ? kMaxRank + 10 : 10'000;
  return options;
}

// Gives exactly the memory that was asked for, and adds up what that was.
class StrictSink final : public TensorSink {
public:
  struct Tensor {
    std::unique_ptr<std::byte[]> memory; // new[] aligns enough for these dtypes
    std::size_t size = 0;
    std::uint64_t bytes = 0;
    bool finished = false;
    Shape shape;
  };
  std::span<std::byte> grow(std::size_t index, std::size_t used, std::size_t need) override {
    Tensor &tensor = tensors.at(index);
    require(used <= tensor.size, "grow keeps what was granted");
    std::unique_ptr<std::byte[]> fresh(new std::byte[need]);
    if (used != 0)
      std::memcpy(fresh.get(), tensor.memory.get(), used);
    tensor.memory = std::move(fresh);
    tensor.size = need;
    std::uint64_t total = 0;
    for (const Tensor &each : tensors)
      total += each.size;
    peak = std::max(peak, total);
    return {tensor.memory.get(), need};
  }
  void finish(std::size_t index, DType, const Shape &shape, std::uint64_t bytes) override {
    Tensor &tensor = tensors.at(index);
    require(bytes <= tensor.size, "finish within what was granted");
    tensor.finished = true;
    tensor.shape = shape;
    tensor.bytes = bytes;
  }
  std::array<Tensor, 2> tensors;
  std::uint64_t peak = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  if (size < 2)
    return 0;
  const SignatureSet &signatures = signature_sets()[data[0] % signature_sets().size()];
  const DecodeOptions options = options_of(data[1]);
  const std::span<const std::byte> body(reinterpret_cast<const std::byte *>(data) + 2, size - 2);

  StrictSink near;
  const auto result = decode_predict(body, signatures, options, near);
  const auto checked = check_predict(body, options);
  require(near.peak <= decoded_bytes_bound(body, signatures), "decoded_bytes_bound");
  if (!result)
    require(result.error().offset <= body.size(), "an offset within the body");
  if (!checked) {
    require(!result, "check_predict is no stricter");
    // Who knows the signature goes on to show an example, before the closing parenthesis.
    std::string said = checked.error().message;
    if (said.ends_with(')'))
      said.pop_back();
    // In lists too deep for a tensor the decoder may meet another fault before the limit.
    const bool deep = checked.error().code == ErrorCode::kTooDeep;
    require(deep || result.error().message.starts_with(said), "the same error");
  } else if (!result) {
    require(result.error().code != ErrorCode::kSyntax, "check_predict sees all syntax");
    require(result.error().code != ErrorCode::kInvalidUtf8, "check_predict sees all bytes");
  }

  const std::string_view text(reinterpret_cast<const char *>(body.data()), body.size());
  const std::string differ = test::disagreement(text, signatures, options);
  require(differ.empty(), differ.c_str());

  std::vector<std::byte> padded(body.begin(), body.end());
  padded.resize(padded.size() + 128, std::byte{' '});
  StrictSink far;
  const auto again = decode_predict(padded, signatures, options, far);
  require(static_cast<bool>(result) == static_cast<bool>(again), "padding decides nothing");
  if (!result) {
    require(result.error().code == again.error().code, "padding changes no code");
    return 0;
  }
  const Signature &signature = signatures.all()[result.value().signature_index];
  for (std::size_t i = 0; i < signature.inputs().size(); ++i) {
    const auto &a = near.tensors[i];
    const auto &b = far.tensors[i];
    require(a.finished && b.finished, "every input is finished");
    require(a.shape == b.shape && a.bytes == b.bytes, "padding changes no shape");
    require(a.bytes == 0 || std::memcmp(a.memory.get(), b.memory.get(), a.bytes) == 0,
            "padding changes no value");
  }
  return 0;
}
