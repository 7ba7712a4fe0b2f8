// A request on its way into memory that is chosen once its size is known.
#pragma once

#include <cstdint>

#include "headrace/error.hpp"
#include "headrace/json_decode.hpp"
#include "headrace/method.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// What a front port carries: a body that is decoded (RequestDecoder), or tensors that are there
/// already (TensorRequest). Immutable once made; whatever it was made of outlives it.
class RequestSource {
public:
  virtual ~RequestSource() = default;

  virtual Method method() const noexcept = 0;
  /// Upper bound of the bytes that `decode` asks of a sink in all.
  virtual std::uint64_t bound() const noexcept = 0;
  /// As decode_predict: the sink gets every input of the signature iff the result is a value.
  virtual Result<PredictRequest> decode(TensorSink &sink) const = 0;
};

} // namespace headrace
