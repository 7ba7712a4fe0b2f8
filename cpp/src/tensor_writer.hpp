// One tensor to JSON text: nested lists around runs of elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "headrace/byte_buffer.hpp"
#include "headrace/json_encode.hpp"
#include "headrace/tensor.hpp"
#include "json_layout.hpp"
#include "number_run.hpp"

namespace headrace {

/// Writes parts of a tensor that has been found writable: nothing can fail any more.
class TensorWriter {
public:
  /// All arguments outlive the writer.
  TensorWriter(const NamedTensor &named, const EncodeOptions &options, JsonLayout &layout,
               ByteBuffer &out);

  /// The part of the tensor from element `first` on that one index of all axes before `axis`
  /// selects, with brackets.
  void write(std::size_t axis, std::uint64_t first);
  /// The same without its outermost brackets. Precondition: axis < rank.
  void write_items(std::size_t axis, std::uint64_t first);
  /// Elements one after another, without brackets.
  void write_elements(std::uint64_t first, std::uint64_t count);
  void write_element(std::uint64_t element) { write_elements(element, 1); }
  /// Elements that one index of `axis` stands for.
  std::uint64_t stride(std::size_t axis) const noexcept { return strides_[axis]; }

private:
  void write_string(std::string_view text);

  const TensorView &tensor_;
  JsonLayout &layout_;
  ByteBuffer &out_;
  RunWriter run_writer_;
  RunStyle style_;
  bool all_as_b64_ = false;     // strings only
  bool invalid_as_b64_ = false; // strings only: each is to be looked at
  std::array<std::uint64_t, kMaxRank> strides_{};
};

} // namespace headrace
