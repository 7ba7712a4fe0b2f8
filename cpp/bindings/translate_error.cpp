#include "translate_error.hpp"

#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace headrace::bindings {

namespace {

// Input bytes quoted in a message need not be UTF-8, and an error about them must still be raised.
py::str to_str(std::string_view text) {
  PyObject *decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (decoded == nullptr)
    throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

} // namespace

void raise_error(const Error &error, const char *python_class) {
  const py::object type = py::module_::import("headrace.errors").attr(python_class);
  const py::object offset =
      error.offset == kNoOffset ? py::object(py::none()) : py::object(py::int_(error.offset));
  const py::object exception =
      type(to_str(error.message), py::arg("code") = to_str(name_of(error.code)),
           py::arg("offset") = offset, py::arg("path") = to_str(error.path));
  PyErr_SetObject(type.ptr(), exception.ptr());
  throw py::error_already_set();
}


} // namespace headrace::bindings
