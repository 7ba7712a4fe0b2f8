// Classify and regress requests: from JSON text to serialized tf.train.Example messages, one for
// each element of a vector of strings. Spec: TensorFlow Serving's REST API, classify and regress;
// TensorFlow's example.proto and feature.proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headrace/byte_buffer.hpp"
#include "headrace/error.hpp"
#include "headrace/json_decode.hpp"
#include "headrace/signature.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// Examples as they were decoded. Movable, not copyable.
struct ExamplesRequest {
  std::string signature_name;      ///< resolved
  std::uint64_t signature_at = 0;  ///< byte in the body that named it, or of the body's value
  ByteBuffer context;              ///< serialized; empty where there is none
  ByteBuffer examples;             ///< serialized, one after another
  std::vector<std::uint64_t> ends; ///< where each one ends

  std::uint64_t count() const noexcept { return ends.size(); }
  /// Bytes of the tensor: the context stands before each example, which merges the two.
  std::uint64_t tensor_bytes() const noexcept;
  /// Gives the sink a string tensor of shape [count()] as its input `index`. False: the sink is
  /// full.
  bool write(TensorSink &sink, std::size_t index) const;
};

/// Decodes `{"signature_name"?, "context"?, "examples": [...]}`. What is judged of it is judged
/// before any model is looked up; so `signatures` may be null. Where they are known, integers for
/// the named signature's float features become floats.
///
/// Of `options`, `default_signature`, `finite_only` and `max_depth` play a part. Memory is in
/// proportion to the body. Errors and threads as for decode_predict.
Result<ExamplesRequest> decode_examples(std::span<const std::byte> body,
                                        const SignatureSet *signatures,
                                        const DecodeOptions &options);

} // namespace headrace
