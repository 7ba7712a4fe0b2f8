// The extension module: each file of this folder binds one part of the core.
#include <pybind11/pybind11.h>

#include "register.hpp"

PYBIND11_MODULE(_core, m) {
  m.doc() = "Headrace's C++ core: codec, rings, batches.";
  headrace::bindings::register_simd(m);
  headrace::bindings::register_signatures(m);
  headrace::bindings::register_decode(m);
  headrace::bindings::register_encode(m);
  headrace::bindings::register_front(m);
  headrace::bindings::register_fast_path(m);
  headrace::bindings::register_worker(m);
}
