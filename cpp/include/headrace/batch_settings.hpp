// What is configured of batches.
#pragma once

#include <cstdint>

namespace headrace {

struct BatchSettings {
  std::uint64_t max_rows = 1024; ///< of a run; a single request may have more
};

} // namespace headrace
