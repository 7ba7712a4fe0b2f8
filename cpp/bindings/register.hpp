// One function per file of this folder.
#pragma once

#include <pybind11/pybind11.h>

namespace headrace::bindings {

void register_simd(pybind11::module_ &m);
void register_signatures(pybind11::module_ &m);
void register_decode(pybind11::module_ &m);
void register_encode(pybind11::module_ &m);
void register_front(pybind11::module_ &m);
void register_fast_connection(pybind11::module_ &m);
void register_fast_path(pybind11::module_ &m);
void register_worker(pybind11::module_ &m);

} // namespace headrace::bindings
