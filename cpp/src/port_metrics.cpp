#include "headrace/port_metrics.hpp"

namespace headrace {

RequestMetrics &PortMetrics::of(std::size_t signature, std::uint8_t api) {
  auto &metrics = by_signature_[signature][api];
  if (metrics == nullptr)
    metrics = std::make_unique<RequestMetrics>();
  return *metrics;
}

} // namespace headrace
