// Where in a body: JSON paths and excerpts for messages. Only the error path comes here, so a path
// is found by walking the text once more, and the decoder itself keeps no track of it.
#pragma once

#include <string>
#include <string_view>

#include "json_text.hpp"

namespace headrace {

/// Path of the innermost value that begins at or before `at`, such as `instances[3].image[0]`;
/// empty for the whole body. At a member's name it is the path of the object.
std::string path_at(const Text &text, const char *at);

/// At most `limit` bytes of `text` on one line, with `...` where it was cut.
std::string excerpt(std::string_view text, std::size_t limit = 256);
/// The same for the value at `at`, whose end is not known yet.
std::string excerpt_of_value(const Text &text, const char *at);

} // namespace headrace
