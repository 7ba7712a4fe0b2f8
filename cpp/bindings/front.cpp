#include "register.hpp"

namespace headrace::bindings {

void register_front(pybind11::module_ & /*m*/) {}

} // namespace headrace::bindings
