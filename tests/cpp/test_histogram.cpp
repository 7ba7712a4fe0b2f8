#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "headrace/histogram.hpp"
#include "headrace/port_metrics.hpp"

using namespace headrace;

namespace {

constexpr std::array<std::uint64_t, 3> kBounds{10, 20, 40};

std::uint64_t sum(const Distribution &read) {
  return std::accumulate(read.counts.begin(), read.counts.end(), std::uint64_t{0});
}

} // namespace

BOOST_AUTO_TEST_CASE(value_counts_in_the_bucket_of_the_least_bound_that_holds_it) {
  Histogram histogram(kBounds);
  for (const std::uint64_t value : {0, 10, 11, 20, 21, 40, 41})
    histogram.record(value);
  const Distribution read = histogram.read();
  BOOST_TEST(read.counts == (std::vector<std::uint64_t>{2, 2, 2, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(read.total == 143);
}

BOOST_AUTO_TEST_CASE(largest_value_counts_above_the_last_bound) {
  Histogram histogram(kBounds);
  histogram.record(std::numeric_limits<std::uint64_t>::max());
  BOOST_TEST(histogram.read().counts.back() == 1);
}

BOOST_AUTO_TEST_CASE(histogram_without_values_is_all_zero) {
  const Histogram histogram(kBounds);
  BOOST_TEST(sum(histogram.read()) == 0);
  BOOST_TEST(histogram.read().total == 0);
}

BOOST_AUTO_TEST_CASE(bounds_ascend_strictly) {
  for (const auto bounds : {time_bounds_ns(), size_bounds()})
    BOOST_TEST(
        (std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end()));
}

BOOST_AUTO_TEST_CASE(time_bounds_hold_each_scale) {
  const auto bounds = time_bounds_ns();
  const auto has = [&](std::uint64_t bound) {
    return std::binary_search(bounds.begin(), bounds.end(), bound);
  };
  for (const std::uint64_t bound : {10'000UL, 25'000UL, 50'000UL, 100'000'000'000UL}) // decades
    BOOST_TEST(has(bound));
  for (const std::uint64_t bound : {18'000UL, 32'400UL, 58'320UL, 104'976UL}) // latencies
    BOOST_TEST(has(bound));
  for (const std::uint64_t bound : {120'000UL, 144'000UL, 172'800UL}) // queueing
    BOOST_TEST(has(bound));
  BOOST_TEST(bounds.front() == 10'000);
}

BOOST_AUTO_TEST_CASE(recordings_of_many_threads_are_all_counted) {
  constexpr std::uint64_t kEach = 20'000;
  Histogram histogram(kBounds);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&histogram] {
      for (std::uint64_t n = 0; n < kEach; ++n)
        histogram.record(n % 50);
    });
  std::uint64_t before = 0;
  for (int i = 0; i < 100; ++i) { // reading beside them never goes back
    const std::uint64_t now = sum(histogram.read());
    BOOST_TEST(now >= before);
    before = now;
  }
  for (std::thread &thread : threads)
    thread.join();
  BOOST_TEST(sum(histogram.read()) == 4 * kEach);
  BOOST_TEST(histogram.read().total == 4 * kEach / 50 * (49 * 50 / 2));
}

BOOST_AUTO_TEST_CASE(metrics_of_a_signature_and_api_are_made_once_and_stay) {
  PortMetrics metrics(2);
  BOOST_TEST(metrics.find(1, kMaxApis - 1) == nullptr);
  RequestMetrics &made = metrics.of(1, kMaxApis - 1);
  metrics.of(0, 0).run.record(1);
  BOOST_TEST(&metrics.of(1, kMaxApis - 1) == &made);
  BOOST_TEST(metrics.find(1, kMaxApis - 1) == &made);
  BOOST_TEST(sum(made.run.read()) == 0);
  BOOST_TEST(metrics.find(0, 1) == nullptr);
}
