// A lease on the memory of a Python object.
#pragma once

#include <pybind11/pybind11.h>

#include <span>

namespace headrace::bindings {

/// Holds a contiguous, readable buffer for as long as it lives. Made and destroyed with the GIL
/// held; its bytes may be read without it, since the exporter keeps them in place meanwhile.
class BufferLease {
public:
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
