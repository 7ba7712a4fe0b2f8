#include "register.hpp"

namespace headrace::bindings {

void register_worker(pybind11::module_ & /*m*/) {}

} // namespace headrace::bindings
