// A request's body of whatever method, on its way into memory that is chosen once its size is
// known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "headrace/error.hpp"
#include "headrace/json_decode.hpp"
#include "headrace/json_examples.hpp"
#include "headrace/signature.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// Predict: the body is decoded straight into the sink. Classify and regress: its examples are
/// decoded at once, into memory of their own, and copied to the sink. Single-use; all arguments
/// outlive it.
class RequestDecoder {
public:
  RequestDecoder(std::span<const std::byte> body, const SignatureSet &signatures,
                 const DecodeOptions &options);

  /// Upper bound of the bytes that `decode` asks of a sink in all.
  std::uint64_t bound() const noexcept;
  /// As decode_predict. Examples become the signature's one input.
  Result<PredictRequest> decode(TensorSink &sink) const;

private:
  Result<PredictRequest> take_examples(TensorSink &sink) const;
  Error refuse(ErrorCode code, std::string message, std::string hint) const;

  std::span<const std::byte> body_;
  const SignatureSet &signatures_;
  const DecodeOptions &options_;
  std::optional<Result<ExamplesRequest>> examples_; ///< none of a predict request
};

} // namespace headrace
