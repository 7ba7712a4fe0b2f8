// The body that answers a request, whatever its method.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "headrace/byte_buffer.hpp"
#include "headrace/error.hpp"
#include "headrace/format.hpp"
#include "headrace/json_encode.hpp"
#include "headrace/method.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// What of a request decides how its answer is written.
struct AnswerForm {
  Method method = Method::kPredict;
  Format format = Format::kRow; ///< of kPredict
  std::uint64_t rows = 0;       ///< examples that were sent; of the other methods
};

/// Appends the answer made of a model's outputs to `out`. Predict: see encode_predict. Classify:
/// `classes` and `scores`, one of which may be missing, each of shape [examples, classes]. Regress:
/// `outputs`, of shape [examples] or [examples, 1]. Other outputs play no part in these two.
/// Errors as for the encoders, and kStructure where outputs are not of that dtype and shape.
/// Spec: tfserving-rest sections 9 and 13.
Result<std::monostate> encode_answer(std::span<const NamedTensor> outputs, const AnswerForm &form,
                                     const EncodeOptions &options, ByteBuffer &out);

} // namespace headrace
