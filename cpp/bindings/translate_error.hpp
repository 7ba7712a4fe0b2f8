// The only way by which a core `Error` becomes a Python exception.
#pragma once

#include "headrace/error.hpp"

namespace headrace::bindings {

/// Raises `headrace.errors.<python_class>(message, code=..., offset=..., path=...)`; call with the GIL held.
[[noreturn]] void raise_error(const Error &error, const char *python_class = "DecodeError");

} // namespace headrace::bindings
