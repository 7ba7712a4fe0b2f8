// NumPy arrays to the core's tensors and back.
//
// Who owns what: an `ArrayTensor` keeps alive the memory that its view points to, either the array
// itself (numbers of a contiguous array in native byte order: no copy) or a copy that it made (all
// else, and strings). `to_array` lends the tensor's memory to an array whose base is the owner that
// the caller names, or copies it when there is no owner.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/tensor.hpp"

namespace headrace::bindings {

/// A NumPy array, or anything that `numpy.asarray` takes, as the core sees it. Movable, not
/// copyable.
///
/// Made, moved and destroyed with the GIL held. The view may be read without the GIL for as long as
/// the object lives; that nobody writes to the array meanwhile is the caller's promise.
class ArrayTensor {
public:
  /// Strings may come as `object` (of bytes or str), `S` or `U` arrays; str becomes UTF-8. A dtype
  /// without a JSON form gives kUnsupported, no data, and its name in `dtype_name`. Raises
  /// TypeError where an object array holds something else, ValueError for a rank above kMaxRank,
  /// and whatever `numpy.asarray` raises.
  explicit ArrayTensor(pybind11::handle array_like);
  ArrayTensor(ArrayTensor &&) noexcept = default;
  ArrayTensor &operator=(ArrayTensor &&) noexcept = default;
  ArrayTensor(const ArrayTensor &) = delete;
  ArrayTensor &operator=(const ArrayTensor &) = delete;
  ~ArrayTensor() = default;

  const TensorView &view() const noexcept { return view_; }
  /// NumPy's name of the array's dtype.
  const std::string &dtype_name() const noexcept { return dtype_name_; }

private:
  void take_numbers(const pybind11::array &array);
  void take_strings(const pybind11::array &array);

  pybind11::array array_;                // whose memory `view_` shows; empty for strings
  std::unique_ptr<std::byte[]> strings_; // bytes and offsets, in the layout of tensor.hpp
  TensorView view_;
  std::string dtype_name_;
};

/// A mapping of names to arrays, as the core sees it. As for ArrayTensor; not movable, since the
/// views point into it.
class NamedArrays {
public:
  /// Raises TypeError where a name is no str, and whatever ArrayTensor raises.
  explicit NamedArrays(const pybind11::object &mapping);
  NamedArrays(const NamedArrays &) = delete;
  NamedArrays &operator=(const NamedArrays &) = delete;
  ~NamedArrays() = default;

  std::span<const NamedTensor> tensors() const noexcept { return tensors_; }
  /// Of all tensors.
  std::uint64_t bytes() const noexcept { return bytes_; }

private:
  std::vector<std::string> names_;
  std::vector<ArrayTensor> arrays_;
  std::vector<NamedTensor> tensors_;
  std::uint64_t bytes_ = 0;
};

/// NumPy's dtype: `ml_dtypes.bfloat16` for kBfloat16, `object` for kString. Precondition: not
/// kUnsupported.
pybind11::dtype numpy_dtype(DType dtype);

/// The tensor as a NumPy array. Numbers: the tensor's own memory with `owner` as the array's base,
/// which keeps it alive and is all that frees it; `writable` says whether Python may write there. A
/// null `owner`: a copy, always writable. Strings: always a copy, an object array of bytes. Call
/// with the GIL held.
pybind11::array to_array(const TensorView &tensor, pybind11::handle owner = {},
                         bool writable = true);

} // namespace headrace::bindings
