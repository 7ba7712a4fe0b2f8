// `_core.DecodeOptions`: immutable, made once by a dialect and passed on every call.
#pragma once

#include <string>
#include <utility>

#include "headrace/json_decode.hpp"

namespace headrace::bindings {

/// DecodeOptions with the memory that they point into. Immutable, hence safe to share.
class OwnedDecodeOptions {
public:
  OwnedDecodeOptions(std::string default_signature, bool check_shapes, bool integral_floats,
                     bool bare_list, bool finite_only, bool keep_extra, std::size_t max_depth,
                     Method method)
      : default_signature_(std::move(default_signature)),
        options_{default_signature_, check_shapes, integral_floats, bare_list,
                 finite_only,        keep_extra,   max_depth,       method} {}
  OwnedDecodeOptions(const OwnedDecodeOptions &) = delete;
  OwnedDecodeOptions &operator=(const OwnedDecodeOptions &) = delete;

  const DecodeOptions &view() const noexcept { return options_; }

private:
  std::string default_signature_;
  DecodeOptions options_;
};

} // namespace headrace::bindings
