#include "array.hpp"

#include <pybind11/gil_safe_call_once.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace headrace::bindings {

namespace {

constexpr int kFirstUserType = 256; // NPY_USERDEF: numbers of types that extensions have registered

const py::dtype &bfloat16_dtype() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::dtype> storage;
  return storage
      .call_once_and_store_result(
          [] { return py::dtype::from_args(py::module_::import("ml_dtypes").attr("bfloat16")); })
      .get_stored();
}

std::optional<DType> integer_of(py::ssize_t size, bool is_signed) noexcept {
  switch (size) {
  case 1:
    return is_signed ? DType::kInt8 : DType::kUint8;
  case 2:
    return is_signed ? DType::kInt16 : DType::kUint16;
  case 4:
    return is_signed ? DType::kInt32 : DType::kUint32;
  case 8:
    return is_signed ? DType::kInt64 : DType::kUint64;
  default:
    return std::nullopt;
  }
}

std::optional<DType> float_of(py::ssize_t size) noexcept {
  switch (size) {
  case 2:
    return DType::kFloat16;
  case 4:
    return DType::kFloat32;
  case 8:
    return DType::kFloat64;
  default: // long double
    return std::nullopt;
  }
}

std::optional<DType> dtype_of(const py::dtype &dtype) {
  switch (dtype.kind()) {
  case 'b':
    return DType::kBool;
  case 'O':
  case 'S':
  case 'U':
  case 'T':
    return DType::kString;
  default:
    break;
  }
  if (dtype.num() >= kFirstUserType)
    return dtype.equal(bfloat16_dtype()) ? std::optional(DType::kBfloat16) : std::nullopt;
  switch (dtype.kind()) {
  case 'i':
    return integer_of(dtype.itemsize(), true);
  case 'u':
    return integer_of(dtype.itemsize(), false);
  case 'f':
    return float_of(dtype.itemsize());
  default:
    return std::nullopt;
  }
}

Shape shape_of(const py::array &array) {
  if (static_cast<std::size_t>(array.ndim()) > kMaxRank)
    throw py::value_error("an array of rank " + std::to_string(array.ndim()) + "; the limit is " +
                          std::to_string(kMaxRank));
  Shape shape;
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis)
    shape.push_back(static_cast<std::uint64_t>(array.shape(axis)));
  return shape;
}

/// The array itself if the core can read it where it is, else a copy that it can.
py::array readable(const py::array &array) {
  constexpr int kWanted = int{py::array::c_style} | int{py::detail::npy_api::NPY_ARRAY_ALIGNED_};
  const char order = array.dtype().byteorder();
  if ((array.flags() & kWanted) == kWanted && (order == '=' || order == '|'))
    return array;
  return py::module_::import("numpy").attr("require")(
      array, array.dtype().attr("newbyteorder")("="), "CA");
}

/// The bytes of a bytes or str object, which keeps them. Precondition: the GIL is held.
std::string_view text_of(PyObject *item, std::size_t place) {
  if (item != nullptr && PyBytes_Check(item))
    return {PyBytes_AS_STRING(item), static_cast<std::size_t>(PyBytes_GET_SIZE(item))};
  if (item != nullptr && PyUnicode_Check(item)) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(item, &size);
    if (text == nullptr)
      throw py::error_already_set();
    return {text, static_cast<std::size_t>(size)};
  }
  throw py::type_error("an object array must hold bytes or str; element " + std::to_string(place) +
                       " (in row-major order) is " +
                       (item == nullptr ? "NULL" : Py_TYPE(item)->tp_name));
}

// Without the vectors that py::array's constructors make. Null `data`: memory of its own.
py::array new_array(DType dtype, const Shape &shape, std::byte *data, bool writable) {
  const auto &api = py::detail::npy_api::get();
  std::array<Py_intptr_t, kMaxRank> extents;
  std::ranges::copy(shape.dims(), extents.begin());
  // To memory of its own any flag would mean Fortran's order.
  const int flags = data != nullptr && writable ? py::detail::npy_api::NPY_ARRAY_WRITEABLE_ : 0;
  auto array = py::reinterpret_steal<py::array>(api.PyArray_NewFromDescr_(
      api.PyArray_Type_, numpy_dtype(dtype).release().ptr(), static_cast<int>(shape.rank()),
      extents.data(), nullptr, data, flags, nullptr));
  if (!array)
    throw py::error_already_set();
  return array;
}

void fill_with_bytes(py::array &array, const TensorView &tensor) {
  auto **items = static_cast<PyObject **>(array.mutable_data());
  for (std::uint64_t i = 0; i < tensor.shape.elements(); ++i) {
    const std::string_view text = tensor.string_at(i);
    PyObject *item = PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    if (item == nullptr)
      throw py::error_already_set();
    Py_XDECREF(std::exchange(items[i], item));
  }
}

} // namespace

ArrayTensor::ArrayTensor(py::handle array_like) {
  const py::array array(py::reinterpret_borrow<py::object>(array_like));
  const auto dtype = dtype_of(array.dtype());
  view_.dtype = dtype.value_or(DType::kUnsupported);
  view_.shape = shape_of(array);
  dtype_name_ = dtype && *dtype != DType::kString
                    ? std::string(numpy_name(*dtype))
                    : py::cast<std::string>(array.dtype().attr("name"));
  if (view_.dtype == DType::kString)
    take_strings(array);
  else if (view_.dtype != DType::kUnsupported)
    take_numbers(array);
}

void ArrayTensor::take_numbers(const py::array &array) {
  array_ = readable(array);
  view_.data = static_cast<const std::byte *>(array_.data());
  view_.bytes = static_cast<std::uint64_t>(array_.nbytes());
}

void ArrayTensor::take_strings(const py::array &array) {
  // Fixed-width strings become objects first: NumPy knows where each ends, and this path need not
  // be fast.
  const py::array objects = readable(
      array.dtype().kind() == 'O' ? array : py::array(array.attr("astype")(py::dtype("O"))));
  const auto count = static_cast<std::size_t>(objects.size());
  auto *const *items = static_cast<PyObject *const *>(objects.data());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count; ++i)
    total += text_of(items[i], i).size();

  const std::uint64_t table = (total + 7) / 8 * 8;
  view_.bytes = table + 8 * (count + 1);
  strings_ = std::make_unique_for_overwrite<std::byte[]>(view_.bytes);
  view_.data = strings_.get();
  std::memset(strings_.get() + total, 0, table - total);
  auto *offsets = reinterpret_cast<std::uint64_t *>(strings_.get() + table);
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view text = text_of(items[i], i);
    if (!text.empty())
      std::memcpy(strings_.get() + end, text.data(), text.size());
    offsets[i] = end;
    end += text.size();
  }
  offsets[count] = end;
}

NamedArrays::NamedArrays(const py::object &mapping) {
  const py::list items = py::reinterpret_steal<py::list>(PyMapping_Items(mapping.ptr()));
  if (!items)
    throw py::error_already_set();
  names_.reserve(items.size());
  arrays_.reserve(items.size());
  for (const py::handle item : items) {
    const auto pair = py::reinterpret_borrow<py::tuple>(item);
    if (!PyUnicode_Check(pair[0].ptr()))
      throw py::type_error(std::string("the name of an array must be str, not ") +
                           Py_TYPE(pair[0].ptr())->tp_name);
    names_.push_back(pair[0].cast<std::string>());
    arrays_.emplace_back(pair[1]);
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    tensors_.push_back({names_[i], arrays_[i].view(), arrays_[i].dtype_name()});
    bytes_ += arrays_[i].view().bytes;
  }
}

py::dtype numpy_dtype(DType dtype) {
  switch (dtype) {
  case DType::kBool:
    return py::dtype::of<bool>();
  case DType::kInt8:
    return py::dtype::of<std::int8_t>();
  case DType::kInt16:
    return py::dtype::of<std::int16_t>();
  case DType::kInt32:
    return py::dtype::of<std::int32_t>();
  case DType::kInt64:
    return py::dtype::of<std::int64_t>();
  case DType::kUint8:
    return py::dtype::of<std::uint8_t>();
  case DType::kUint16:
    return py::dtype::of<std::uint16_t>();
  case DType::kUint32:
    return py::dtype::of<std::uint32_t>();
  case DType::kUint64:
    return py::dtype::of<std::uint64_t>();
  case DType::kFloat16:
    return py::dtype("e");
  case DType::kBfloat16:
    return bfloat16_dtype();
  case DType::kFloat32:
    return py::dtype::of<float>();
  case DType::kFloat64:
    return py::dtype::of<double>();
  case DType::kString:
    return py::dtype("O");
  case DType::kUnsupported:
    break;
  }
  throw std::logic_error("a dtype without a NumPy counterpart");
}

py::array to_array(const TensorView &tensor, py::handle owner, bool writable) {
  if (owner && tensor.dtype != DType::kString) {
    auto *const lent = const_cast<std::byte *>(tensor.data);
    py::array array = new_array(tensor.dtype, tensor.shape, lent, writable);
    const auto &api = py::detail::npy_api::get();
    if (api.PyArray_SetBaseObject_(array.ptr(), owner.inc_ref().ptr()) != 0)
      throw py::error_already_set();
    return array;
  }
  py::array array = new_array(tensor.dtype, tensor.shape, nullptr, true);
  if (tensor.dtype == DType::kString)
    fill_with_bytes(array, tensor);
  else if (tensor.bytes != 0)
    std::memcpy(array.mutable_data(), tensor.data, tensor.bytes);
  return array;
}

} // namespace headrace::bindings
