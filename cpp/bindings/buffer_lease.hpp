// The bytes of a Python object that has the buffer protocol.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>

namespace headrace::bindings {

/// Holds the buffer of any contiguous bytes-like object, which the object may not resize meanwhile. Made and destroyed
/// with the GIL held; the bytes may be read without.
class BufferLease {
public:
  /// Raises TypeError or BufferError where there is no contiguous buffer.
  explicit BufferLease(pybind11::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0)
      throw pybind11::error_already_set();
  }
  BufferLease(const BufferLease &) = delete;
  BufferLease &operator=(const BufferLease &) = delete;
  ~BufferLease() { PyBuffer_Release(&view_); }

  std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte *>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

private:
  Py_buffer view_{};
};

} // namespace headrace::bindings
