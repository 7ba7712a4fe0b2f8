// A request that would have been right, for the messages about those that are not.
#pragma once

#include <string>

#include "headrace/signature.hpp"

namespace headrace {

/// A predict body with values of the dtypes and shapes that the signature declares, such as
/// `{"instances": [{"a": [1.0, 1.0], "b": "text"}]}`; by columns where an input has no dimension
/// for rows, or a fixed one. Long lists end in `...`. Empty where no short body can show the
/// inputs: they are too many, their dimensions are, or they have no JSON form.
std::string example_body(const Signature &signature);

} // namespace headrace
