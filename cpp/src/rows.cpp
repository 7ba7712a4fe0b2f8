#include "headrace/rows.hpp"

#include <cstring>

#include "headrace/ring.hpp"

namespace headrace {

ElementRange row_range(const TensorView &tensor, std::uint64_t first_row,
                       std::uint64_t rows) noexcept {
  std::uint64_t per_row = 1;
  for (std::size_t i = 1; i < tensor.shape.rank(); ++i)
    per_row *= tensor.shape[i];
  return {&tensor, first_row * per_row, rows * per_row};
}

ElementRange whole_range(const TensorView &tensor) noexcept {
  return {&tensor, 0, tensor.shape.elements()};
}

std::uint64_t text_bytes(const ElementRange &range) noexcept {
  const auto offsets = range.tensor->string_offsets();
  return offsets[range.first + range.count] - offsets[range.first];
}

std::uint64_t range_bytes(const ElementRange &range) noexcept {
  if (range.tensor->dtype != DType::kString)
    return range.count * item_size(range.tensor->dtype);
  return align_up(text_bytes(range), 8) + 8 * (range.count + 1);
}

void copy_range(const ElementRange &range, std::byte *to) noexcept {
  const TensorView &tensor = *range.tensor;
  if (tensor.dtype != DType::kString) {
    const std::size_t item = item_size(tensor.dtype);
    if (range.count != 0)
      std::memcpy(to, tensor.data + range.first * item, range.count * item);
    return;
  }
  const auto offsets = tensor.string_offsets();
  const std::uint64_t begin = offsets[range.first];
  const std::uint64_t text = text_bytes(range);
  if (text != 0)
    std::memcpy(to, tensor.data + begin, text);
  std::memset(to + text, 0, align_up(text, 8) - text);
  auto *table = reinterpret_cast<std::uint64_t *>(to + align_up(text, 8));
  for (std::uint64_t i = 0; i <= range.count; ++i)
    table[i] = offsets[range.first + i] - begin;
}

} // namespace headrace
