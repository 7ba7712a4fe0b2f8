// Predict requests: from JSON text straight into the memory of a TensorSink, without a tree in
// between. Spec: TensorFlow Serving's REST API, request format (`instances` and `inputs`), JSON
// mapping and conformance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "headrace/error.hpp"
#include "headrace/format.hpp"
#include "headrace/method.hpp"
#include "headrace/signature.hpp"
#include "headrace/simd.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

struct DecodeOptions {
  /// Signature of a body without `signature_name`, or with an empty one. The view must outlive the
  /// options.
  std::string_view default_signature = "serving_default";
  bool check_shapes = false;        ///< declared shapes are checked, a declared 1 for any: kShape
  bool integral_floats = false;     ///< `1.0` and `1e3` are integers too
  bool bare_list = false;           ///< the body may be the bare list of instances
  bool finite_only = false;         ///< NaN and infinity tokens are refused: kNonFinite
  bool keep_extra = false;          ///< collect other top-level members
  std::size_t max_depth = 10'000;   ///< nesting of members that are not tensors; beyond: kTooDeep
  Method method = Method::kPredict; ///< what RequestDecoder takes the body for
  Simd simd = active_simd();        ///< which kernels; none changes a result
};

struct PredictRequest {
  Format format = Format::kRow;
  std::string signature_name;      ///< resolved
  std::size_t signature_index = 0; ///< into SignatureSet::all()
  std::uint64_t rows =
      0; ///< dim 0 of every input; 0 where they do not share one or one is a scalar
  std::vector<std::pair<std::string, std::string>>
      extra; ///< name, raw JSON text; empty unless keep_extra
};

/// Decodes one predict request; `sink` gets every input of the signature, finished, iff the result
/// is a value.
///
/// The body may be a slice of a larger buffer: nothing outside of it is read, no padding is needed.
/// Errors carry the byte offset and the JSON path of what is wrong. A syntax error anywhere in the
/// body wins over any other error. Thread-safe: all state is on the stack and in `sink`.
Result<PredictRequest> decode_predict(std::span<const std::byte> body,
                                      const SignatureSet &signatures, const DecodeOptions &options,
                                      TensorSink &sink);

/// Only what is judged before a model is looked up: the syntax of the whole body, that its top
/// level is an object (or a list, with `bare_list`), and that `signature_name` is a string. A model
/// that is unknown is reported after these.
Result<std::monostate> check_predict(std::span<const std::byte> body, const DecodeOptions &options);

/// Upper bound of the bytes that decode_predict asks of a sink in all, over any of the signatures.
std::uint64_t decoded_bytes_bound(std::span<const std::byte> body, const SignatureSet &signatures);

} // namespace headrace
