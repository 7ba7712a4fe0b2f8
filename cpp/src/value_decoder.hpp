// One JSON value to one tensor, or to one row of it: finds the shape from the first elements while
// it stores, and holds every list to it. Spec: TensorFlow Serving REST, value to shape.
#pragma once

#include <array>
#include <cstdint>

#include "tensor_filler.hpp"

namespace headrace {

/// Extents of a value, known or still to be found.
struct Extents {
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  std::size_t rank = kMaxRank + 1; ///< kMaxRank + 1: unknown
  std::array<std::uint64_t, kMaxRank> dims{};

  bool known() const noexcept { return rank <= kMaxRank; }
  Shape shape() const noexcept { return Shape({dims.data(), rank}); }
};

/// Stores the value at `p` (blanks allowed). With unknown `extents`: finds them. Else the value
/// must have them. Yields the text after it, or nullptr with a fault set. No recursion. `max_rank`:
/// beyond it kTooDeep.
const char *decode_value(const char *p, TensorFiller &writer, Extents &extents,
                         std::size_t max_rank, DecodeScope &scope);

} // namespace headrace
