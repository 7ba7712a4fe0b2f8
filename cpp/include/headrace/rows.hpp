// Rows of tensors: what they take, and copying them, for strings as well as numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/tensor.hpp"

namespace headrace {

/// Elements `first` to `first + count` of a tensor, in row-major order.
struct ElementRange {
  const TensorView *tensor;
  std::uint64_t first;
  std::uint64_t count;
};

/// `rows` rows from `first_row` on. Precondition: the rank is at least 1 and the rows are there.
ElementRange row_range(const TensorView &tensor, std::uint64_t first_row,
                       std::uint64_t rows) noexcept;
/// All of it.
ElementRange whole_range(const TensorView &tensor) noexcept;

/// Bytes of a tensor of just these elements.
std::uint64_t range_bytes(const ElementRange &range) noexcept;
/// Writes that tensor: range_bytes() bytes.
void copy_range(const ElementRange &range, std::byte *to) noexcept;

/// Text bytes of a range of strings, without offsets and padding.
std::uint64_t text_bytes(const ElementRange &range) noexcept;

} // namespace headrace
