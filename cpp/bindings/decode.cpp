#include "register.hpp"

namespace headrace::bindings {

void register_decode(pybind11::module_ & /*m*/) {}

} // namespace headrace::bindings
