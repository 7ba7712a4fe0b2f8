// Distributions: counted while requests run, read when somebody asks for the metrics.
//
// One value is counted once, in fine buckets whose bounds are those of every scale that the metrics
// page shows it in; each scale is then an exact sum of buckets. So a time needs no second histogram
// for TensorFlow Serving's bounds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace headrace {

/// What a histogram held when it was read. Counts are by bucket, not cumulative: one more than
/// there are bounds.
struct Distribution {
  std::vector<std::uint64_t> counts;
  std::uint64_t total = 0; ///< sum of the values
};

/// A value counts in the bucket of the least bound that it does not exceed; above the last bound is
/// a bucket, too. Thread-safe. A reading beside recordings may have a value's count without its
/// share of the total, or the reverse.
class Histogram {
public:
  /// `bounds`: ascending; must outlive this.
  explicit Histogram(std::span<const std::uint64_t> bounds)
      : bounds_(bounds), counts_(new std::atomic<std::uint64_t>[bounds.size() + 1]()) {}
  Histogram(const Histogram &) = delete;
  Histogram &operator=(const Histogram &) = delete;
  ~Histogram() = default;

  void record(std::uint64_t value) noexcept;
  Distribution read() const;

private:
  std::span<const std::uint64_t> bounds_;
  // Relaxed throughout: counters on their own, by which nothing else is published.
  std::unique_ptr<std::atomic<std::uint64_t>[]> counts_;
  std::atomic<std::uint64_t> total_ = 0;
};

/// Bounds of times in nanoseconds: 1, 2.5 and 5 in each decade from 10 us to 100 s; TensorFlow
/// Serving's for latencies (10 us times 1.8^k, 33 of them) and for queueing (100 us times 1.2^k, 52
/// of them).
std::span<const std::uint64_t> time_bounds_ns();
/// Bounds of counts of rows or requests: powers of 2 from 1 to 2^20.
std::span<const std::uint64_t> size_bounds();

} // namespace headrace
