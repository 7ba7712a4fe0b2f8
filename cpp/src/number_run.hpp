// Runs of elements to text: the inner loops of the encoder, one for each dtype. Kernels for
// particular processors slot in at `find_run_writer`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "headrace/byte_buffer.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// How a run is written. The texts outlive its use.
struct RunStyle {
  bool tfserving_numbers = false; ///< TF Serving's spelling of floats instead of the shortest
  bool quote_64_bit = false;      ///< int64 and uint64 between quotes
  std::string_view nan;
  std::string_view infinity;
  std::string_view minus_infinity;
  std::string_view separator; ///< between two elements
};

/// Appends elements `first` to `first + count - 1` of `data`, with the style's separator between
/// them.
using RunWriter = void (*)(const std::byte *data, std::uint64_t first, std::uint64_t count,
                           const RunStyle &style, ByteBuffer &out);

/// Precondition: `dtype` is bool or a number.
RunWriter find_run_writer(DType dtype) noexcept;

/// Place of the first element that is NaN or infinite; the tensor's number of elements if there is
/// none.
std::uint64_t find_non_finite(const TensorView &tensor) noexcept;

} // namespace headrace
