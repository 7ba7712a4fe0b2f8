// Fuzzes the decoder of classify and regress requests; the input is the body.
//
// Beyond what the sanitizers see: errors have a place within the body, what is decoded is in
// proportion to it, the tensor takes exactly the bytes that were announced, and text behind the
// body's end is not read.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "headrace/heap_sink.hpp"
#include "headrace/json_examples.hpp"

using namespace headrace;

namespace {

void require(bool holds, const char *what) {
  if (!holds) {
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
  }
}

const SignatureSet &signatures() {
  static const SignatureSet set(
      {Signature("serving_default", {}, {}, {"f", "x"}), Signature("s", {}, {})});
  return set;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const std::span<const std::byte> body(reinterpret_cast<const std::byte *>(data), size);
  const auto result = decode_examples(body, &signatures(), {});

  std::vector<std::byte> padded(body.begin(), body.end());
  padded.resize(padded.size() + 128, std::byte{' '});
  const auto again = decode_examples(padded, &signatures(), {});
  require(static_cast<bool>(result) == static_cast<bool>(again), "padding decides nothing");
  if (!result) {
    require(result.error().offset <= size, "an offset within the body");
    require(result.error().code == again.error().code, "padding changes no code");
    return 0;
  }
  const ExamplesRequest &request = result.value();
  require(request.examples.size() + request.context.size() <= 4 * size, "memory in proportion");
  require(request.examples.view() == again.value().examples.view(), "padding changes no example");
  if (request.tensor_bytes() > (std::uint64_t{1} << 20))
    return 0;
  HeapSink sink(1);
  require(request.write(sink, 0), "a sink without limit takes it");
  const TensorView tensor = sink.tensors()[0].view();
  require(tensor.bytes == request.tensor_bytes(), "the size that was announced");
  require(tensor.string_offsets().back() ==
              request.examples.size() + request.count() * request.context.size(),
          "the context stands before each example");
  return 0;
}
