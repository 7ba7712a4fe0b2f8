// A predict request whose tensors are in memory already: they are checked and copied.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/format.hpp"
#include "headrace/request_source.hpp"
#include "headrace/signature.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// Tensors for a signature. Owns nothing.
struct GivenTensors {
  std::string_view signature;
  /// In any order. Each view is whole: `bytes` is what dtype and shape need, as tensor.hpp says.
  std::span<const NamedTensor> tensors;
  Format format = Format::kRow; ///< of an answer in JSON
};

/// Checks the tensors by the signature, as the JSON decoder does with `check_shapes`: kStructure,
/// kUnknownSignature, kUnknownInput, kDuplicateInput, kMissingInput, kType, kShape,
/// kUnsupportedDtype; kShape, too, for huge extents beside an extent of 0, which cost the sender
/// nothing, and kRange for the bytes of a bool that are neither 0 nor 1, which no model
/// expects. Errors have no offset and no path: there is no text.
class TensorRequest final : public RequestSource {
public:
  TensorRequest(const GivenTensors &given, const SignatureSet &signatures);

  Method method() const noexcept override { return Method::kPredict; }
  std::uint64_t bound() const noexcept override;
  Result<PredictRequest> decode(TensorSink &sink) const override;

private:
  Result<PredictRequest> check(const GivenTensors &given, const SignatureSet &signatures);

  std::vector<const NamedTensor *> inputs_; ///< in the order of the signature's
  Result<PredictRequest> checked_;
};

} // namespace headrace
