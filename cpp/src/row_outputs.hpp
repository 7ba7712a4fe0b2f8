// Outputs that cannot be paired with the rows of a request, told before or after the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "headrace/json_encode.hpp"
#include "headrace/signature.hpp"

namespace headrace {

/// TF Serving's text, its trailing blank included, then what to do about it.
std::string no_rows_text(std::string_view output);
std::string other_rows_text(std::string_view output, std::uint64_t found, std::uint64_t expected);

/// Why a request of so many rows cannot be answered by rows, whatever the model does: kShape or
/// kBatchSize for a wanted output that is declared without a dimension for them, or with a fixed
/// one. A declared 1 says nothing, as in shape_defect.
std::optional<Error> row_defect(const Signature &signature, std::uint64_t rows,
                                const EncodeOptions &options);

} // namespace headrace
