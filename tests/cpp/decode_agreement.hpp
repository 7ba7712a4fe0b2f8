// One body decoded by each variant of the kernels that this processor runs: all must give the same.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/heap_sink.hpp"
#include "headrace/json_decode.hpp"

namespace headrace::test {

/// What came of a body, in a form that can be compared.
struct Decoded {
  struct Tensor {
    Shape shape;
    std::string bytes;
    bool operator==(const Tensor &) const = default;
  };
  std::string error; ///< code, offset, path and message; empty: none
  std::vector<Tensor> tensors;
  bool operator==(const Decoded &) const = default;
};

inline Decoded decode_by(Simd simd, std::string_view body, const SignatureSet &signatures,
                         DecodeOptions options = {}) {
  options.simd = simd;
  HeapSink sink(2);
  const auto result =
      decode_predict(std::as_bytes(std::span(body.data(), body.size())), signatures, options, sink);
  Decoded decoded;
  if (!result) {
    const Error &error = result.error();
    decoded.error = std::string(name_of(error.code)) + " at " + std::to_string(error.offset) +
                    ", " + error.path + ": " + error.message;
    return decoded;
  }
  const std::size_t inputs = signatures.all()[result.value().signature_index].inputs().size();
  for (std::size_t i = 0; i < inputs; ++i) {
    const TensorView tensor = sink.tensors().at(i).view();
    const auto *const bytes = static_cast<const char *>(static_cast<const void *>(tensor.data));
    decoded.tensors.push_back(
        {tensor.shape, tensor.bytes == 0 ? std::string() : std::string(bytes, tensor.bytes)});
  }
  return decoded;
}

/// Empty, or how the variants differ over `body`.
inline std::string disagreement(std::string_view body, const SignatureSet &signatures,
                                const DecodeOptions &options = {}) {
  const Decoded portable = decode_by(Simd::kPortable, body, signatures, options);
  for (const Simd simd : available_simd()) {
    const Decoded other = decode_by(simd, body, signatures, options);
    if (other == portable)
      continue;
    std::string differ = std::string(simd_name(simd)) + " differs from portable: ";
    if (other.error != portable.error)
      return differ + "'" + other.error + "' and '" + portable.error + "'";
    for (std::size_t i = 0; i < portable.tensors.size(); ++i) {
      const auto &a = other.tensors[i];
      const auto &b = portable.tensors[i];
      if (a.shape != b.shape || a.bytes.size() != b.bytes.size())
        return differ + "the shape of input " + std::to_string(i);
      const auto at = std::mismatch(a.bytes.begin(), a.bytes.end(), b.bytes.begin()).first;
      if (at != a.bytes.end())
        return differ + "byte " + std::to_string(at - a.bytes.begin()) + " of input " +
               std::to_string(i);
    }
  }
  return {};
}

} // namespace headrace::test
