// The methods by which a signature can be called.
#pragma once

#include <cstdint>

namespace headrace {

enum class Method : std::uint8_t {
  kPredict,  ///< tensors in, tensors out
  kClassify, ///< Examples in; labels and scores of each out
  kRegress,  ///< Examples in; a number for each out
};

} // namespace headrace
