// What every kind of request's body has in common: where its value begins and ends, and what is
// judged of its envelope.
#pragma once

#include "decode_fault.hpp"
#include "json_text.hpp"

namespace headrace {

/// Where the body's value begins, after a byte order mark and blanks; nullptr with a fault set
/// where none does.
const char *find_root(const Text &text, SyntaxError &error) noexcept;

/// `p` behind the body's value. False with a fault set: something follows.
bool check_end(const char *p, const Text &text, SyntaxError &error) noexcept;

/// False with a fault set: the value at `root` is not an object.
bool check_object(const char *root, const Text &text, Faults &faults);

/// `at`: the value of `signature_name`, or nullptr. False with a fault set: it is not a string.
bool check_signature_name(const char *at, const char *root, const Text &text, Faults &faults);

} // namespace headrace
