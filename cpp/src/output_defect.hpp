// What can keep an output from being written; looked for beforehand, so that writing cannot fail
// half-way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/error.hpp"
#include "headrace/json_encode.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

struct Defect {
  ErrorCode code;
  std::optional<std::uint64_t> element; ///< its place in the tensor; none: the whole tensor
  std::string message;                  ///< names the output and the element's index
};

std::optional<Defect> find_defect(const NamedTensor &output, const EncodeOptions &options);

/// The index of each axis of an element, given its place in row-major order.
std::vector<std::uint64_t> index_of(const Shape &shape, std::uint64_t element);

/// A name as messages show it: between quotes, cut at 256 bytes.
std::string quoted(std::string_view name);

/// Whether the output's strings are written as {"b64": ...} because of its name.
inline bool is_bytes_name(std::string_view name) noexcept { return name.ends_with("_bytes"); }

/// Whether all strings of a kString tensor are UTF-8, each by itself.
bool are_all_utf8(const TensorView &tensor) noexcept;

} // namespace headrace
