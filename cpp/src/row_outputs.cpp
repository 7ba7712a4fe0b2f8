#include "row_outputs.hpp"

#include <algorithm>

namespace headrace {

namespace {

constexpr std::string_view kAdvice =
    "Send the request as 'inputs' (columnar) instead of 'instances'";

} // namespace

std::string no_rows_text(std::string_view output) {
  return "Tensor name: " + std::string(output) +
         " has no shape information ; a scalar output cannot be split into rows. " +
         std::string(kAdvice);
}

std::string other_rows_text(std::string_view output, std::uint64_t found, std::uint64_t expected) {
  return "Tensor name: " + std::string(output) +
         " has inconsistent batch size: " + std::to_string(found) +
         " expecting: " + std::to_string(expected) +
         "; such outputs cannot be paired row by row. " + std::string(kAdvice);
}

std::optional<Error> row_defect(const Signature &signature, std::uint64_t rows,
                                const EncodeOptions &options) {
  if (!signature.fixes_rows())
    return std::nullopt;
  const auto &wanted = options.outputs;
  for (const auto &[name, spec] : signature.outputs()) {
    if (!spec.known_rank ||
        (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()))
      continue;
    if (spec.dims.empty())
      return Error{ErrorCode::kShape, kNoOffset, "instances", no_rows_text(name)};
    const std::uint64_t declared = spec.dims[0].value_or(rows);
    if (declared != rows && declared != 1)
      return Error{ErrorCode::kBatchSize, kNoOffset, "instances",
                   other_rows_text(name, declared, rows)};
  }
  return std::nullopt;
}

} // namespace headrace
