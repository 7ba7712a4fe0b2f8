// The only way by which the core's errors become Python exceptions.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

#include "headrace/error.hpp"

namespace headrace::bindings {

/// Raises `headrace.errors.<python_class>(message, code=..., offset=..., path=...)`; call with the
/// GIL held.
[[noreturn]] void raise_error(const Error &error, const char *python_class = "DecodeError");

/// Raises `headrace.errors.<python_class>(message)`; call with the GIL held.
[[noreturn]] void raise(const char *python_class, std::string_view message);

/// From now on BrokenPeer becomes RemoteProtocolError, and std::system_error OSError.
void register_translations();

/// Text that need not be UTF-8, since it may quote what a client or a model sent; other bytes
/// become escapes.
pybind11::str to_str(std::string_view text);

} // namespace headrace::bindings
