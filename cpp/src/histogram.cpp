#include "headrace/histogram.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace headrace {

namespace {

void add_exponential(std::vector<std::uint64_t> &bounds, double first, double factor,
                     std::size_t count) {
  double bound = first;
  for (std::size_t i = 0; i < count; ++i) {
    bounds.push_back(static_cast<std::uint64_t>(std::llround(bound)));
    bound *= factor; // step by step, as TensorFlow does, so that the last digit agrees
  }
}

std::vector<std::uint64_t> make_time_bounds() {
  std::vector<std::uint64_t> bounds;
  for (std::uint64_t decade = 10'000; decade < 100'000'000'000; decade *= 10)
    for (const std::uint64_t tenths : std::array<std::uint64_t, 3>{10, 25, 50})
      bounds.push_back(decade / 10 * tenths);
  bounds.push_back(100'000'000'000);
  add_exponential(bounds, 10e3, 1.8, 33);
  add_exponential(bounds, 100e3, 1.2, 52);
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  return bounds;
}

std::vector<std::uint64_t> make_size_bounds() {
  std::vector<std::uint64_t> bounds;
  add_exponential(bounds, 1, 2, 21);
  return bounds;
}

} // namespace

void Histogram::record(std::uint64_t value) noexcept {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  total_.fetch_add(value, std::memory_order_relaxed);
}

Distribution Histogram::read() const {
  Distribution read;
  read.counts.reserve(bounds_.size() + 1);
  for (std::size_t i = 0; i <= bounds_.size(); ++i)
    read.counts.push_back(counts_[i].load(std::memory_order_relaxed));
  read.total = total_.load(std::memory_order_relaxed);
  return read;
}

std::span<const std::uint64_t> time_bounds_ns() {
  static const std::vector<std::uint64_t> bounds = make_time_bounds();
  return bounds;
}

std::span<const std::uint64_t> size_bounds() {
  static const std::vector<std::uint64_t> bounds = make_size_bounds();
  return bounds;
}

} // namespace headrace
