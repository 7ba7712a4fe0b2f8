// `_core.simd`, `_core.available_simd`: the instruction sets that the kernels use and could use.
#include "headrace/simd.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "register.hpp"

namespace py = pybind11;

namespace headrace::bindings {

void register_simd(py::module_ &m) {
  m.def("active_simd", [] { return std::string(simd_name(active_simd())); });
  m.def("available_simd", [] {
    std::vector<std::string> names;
    for (const Simd level : available_simd())
      names.emplace_back(simd_name(level));
    return names;
  });
}

} // namespace headrace::bindings
