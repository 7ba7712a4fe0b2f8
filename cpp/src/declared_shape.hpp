// Whether a tensor has the shape that its signature declares.
#pragma once

#include <optional>
#include <string>

#include "headrace/tensor.hpp"

namespace headrace {

/// `[2,1]`, as TF Serving writes a shape.
std::string to_text(const Shape &shape);

/// `float[?,2]`: dtype and shape as declared; of an unknown rank the dtype alone.
std::string to_text(const TensorSpec &spec);

/// What is wrong with the shape of an input, which is named with what was expected and found.
/// Exporters write the shape of the one example they had: models that declare [1] or [-1,1] are
/// asked for any number of scalars, TF Serving's own among them, and their graphs answer. So a
/// declared 1 takes any extent, or none at all; whether the graph copes is the graph's to say.
std::optional<std::string> shape_defect(const std::string &input, const TensorSpec &spec,
                                        const Shape &shape);

} // namespace headrace
