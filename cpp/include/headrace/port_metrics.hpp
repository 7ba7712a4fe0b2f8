// What a front port measures of its requests, apart for each signature and API.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "headrace/histogram.hpp"

namespace headrace {

/// APIs are numbers to the core; these are few, and their names are the caller's.
inline constexpr std::size_t kMaxApis = 16;

/// What the caller knows of a request beyond its body.
struct RequestNotes {
  std::uint8_t api = 0;         ///< below kMaxApis
  std::uint64_t receive_ns = 0; ///< from its first byte to its last; 0: it came in one piece
  std::uint64_t tag = 0;        ///< the caller's own; comes back with the reply
};

/// Of one signature and API. Times are in nanoseconds.
struct RequestMetrics {
  Histogram receive{time_bounds_ns()}; ///< of accepted requests, as are `decode` and `rows`
  Histogram decode{time_bounds_ns()};
  Histogram wait{time_bounds_ns()}; ///< of requests that were run: from their submission to the run
  Histogram run{time_bounds_ns()};
  Histogram encode{time_bounds_ns()}; ///< of answers that could be encoded
  Histogram rows{size_bounds()};
  Histogram batch_rows{size_bounds()}; ///< by run: counted with the request whose reply came first
  Histogram batch_requests{size_bounds()};
};

/// All that were used of one port, and of the ports it succeeds. Single-owner, but that the
/// histograms of one RequestMetrics may be recorded in from any thread.
class PortMetrics {
public:
  explicit PortMetrics(std::size_t signatures) : by_signature_(signatures) {}

  /// Made when first asked for; stays where it is. Preconditions: both exist.
  RequestMetrics &of(std::size_t signature, std::uint8_t api);
  /// Null: nothing was recorded. Preconditions as above.
  const RequestMetrics *find(std::size_t signature, std::uint8_t api) const noexcept {
    return by_signature_[signature][api].get();
  }
  std::size_t signatures() const noexcept { return by_signature_.size(); }

private:
  std::vector<std::array<std::unique_ptr<RequestMetrics>, kMaxApis>> by_signature_;
};

} // namespace headrace
