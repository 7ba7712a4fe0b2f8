#include "translate_error.hpp"

#include <pybind11/pybind11.h>

#include <exception>
#include <string>
#include <system_error>

#include "headrace/memory_file.hpp"

namespace py = pybind11;

namespace headrace::bindings {

py::str to_str(std::string_view text) {
  PyObject *decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (decoded == nullptr)
    throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

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

void raise(const char *python_class, std::string_view message) {
  const py::object type = py::module_::import("headrace.errors").attr(python_class);
  PyErr_SetObject(type.ptr(), to_str(message).ptr());
  throw py::error_already_set();
}

void register_translations() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown)
        std::rethrow_exception(thrown);
    } catch (const BrokenPeer &broken) {
      const py::object type = py::module_::import("headrace.errors").attr("RemoteProtocolError");
      PyErr_SetString(type.ptr(), broken.what());
    } catch (const std::system_error &failure) {
      const py::object arguments = py::make_tuple(failure.code().value(), failure.what());
      PyErr_SetObject(PyExc_OSError, arguments.ptr()); // which picks the subclass by the number
    }
  });
}

} // namespace headrace::bindings
