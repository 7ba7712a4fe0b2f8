// A request's body of whatever method.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "headrace/error.hpp"
#include "headrace/json_decode.hpp"
#include "headrace/json_examples.hpp"
#include "headrace/request_source.hpp"
#include "headrace/signature.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// Predict: the body is decoded straight into the sink. Classify and regress: its examples are
/// decoded at once, into memory of their own, and copied to the sink. Single-use; all arguments
/// outlive it.
class RequestDecoder final : public RequestSource {
public:
  RequestDecoder(std::span<const std::byte> body, const SignatureSet &signatures,
                 const DecodeOptions &options);

  Method method() const noexcept override { return options_.method; }
  std::uint64_t bound() const noexcept override;
  /// Examples become the signature's one input.
  Result<PredictRequest> decode(TensorSink &sink) const override;

private:
  Result<PredictRequest> take_examples(TensorSink &sink) const;
  Error refuse(ErrorCode code, std::string message, std::string hint) const;

  std::span<const std::byte> body_;
  const SignatureSet &signatures_;
  const DecodeOptions &options_;
  std::optional<Result<ExamplesRequest>> examples_; ///< none of a predict request
};

} // namespace headrace
