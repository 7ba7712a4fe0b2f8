// Names in messages: which exist, and which one was probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headrace {

/// `a,b,c`, as TF Serving writes a set of names.
std::string join_names(const std::vector<std::string_view> &names);

/// "names that exist: 'a', 'b'", with "; did you mean 'a'?" where one is near.
std::string suggest(std::string_view name, const std::vector<std::string_view> &names);

} // namespace headrace
