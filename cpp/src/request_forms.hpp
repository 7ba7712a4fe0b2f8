// The two forms of a predict request's tensors: rows (`instances`) and columns (`inputs`).
// Spec: TensorFlow Serving REST, predict request.
#pragma once

#include <cstdint>

#include "headrace/signature.hpp"
#include "tensor_filler.hpp"

namespace headrace {

// Each takes the value at `p`, gives every input of `signature` to the sink, and yields the text
// after the value; or nullptr with a fault set. `rows` as in PredictRequest.
// Precondition: the signature has inputs.

const char *decode_instances(const char *p, const Signature &signature, DecodeScope &scope,
                             std::uint64_t &rows);
const char *decode_inputs(const char *p, const Signature &signature, DecodeScope &scope,
                          std::uint64_t &rows);

// What both share.

/// Names of the signature's inputs, sorted.
std::vector<std::string_view> input_names(const Signature &signature);

/// Checks the declared shape, where the options say so. False with kShape at `at`.
bool check_declared(const TensorFiller &writer, const Shape &shape, const char *at,
                    DecodeScope &scope);

} // namespace headrace
