#include "register.hpp"

namespace headrace::bindings {

void register_encode(pybind11::module_ & /*m*/) {}

} // namespace headrace::bindings
