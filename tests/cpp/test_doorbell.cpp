#include <boost/test/unit_test.hpp>

#include <poll.h>
#include <thread>

#include "headrace/doorbell.hpp"
#include "headrace/ring.hpp"

using namespace headrace;

namespace {

bool is_readable(int fd, int timeout_ms) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, timeout_ms) == 1;
}

struct Bell {
  UniqueFd fd{create_eventfd()};
  std::atomic<std::uint32_t> asleep{0};
  Doorbell bell{fd.get(), asleep};
};

} // namespace

BOOST_AUTO_TEST_CASE(a_side_that_is_awake_is_not_rung) {
  const Bell b;
  b.bell.ring();
  BOOST_TEST(!is_readable(b.fd.get(), 0));
}

BOOST_AUTO_TEST_CASE(a_side_that_sleeps_is_rung_once) {
  const Bell b;
  b.bell.arm();
  BOOST_TEST(!b.bell.was_rung());
  b.bell.ring();
  BOOST_TEST(b.bell.was_rung());
  BOOST_TEST(is_readable(b.fd.get(), 0));
  b.bell.clear();
  b.bell.ring();
  BOOST_TEST(!is_readable(b.fd.get(), 0));
}

BOOST_AUTO_TEST_CASE(disarming_tells_whether_the_bell_was_rung) {
  const Bell b;
  b.bell.arm();
  BOOST_TEST(b.bell.disarm());
  b.bell.ring();
  BOOST_TEST(!is_readable(b.fd.get(), 0));
  b.bell.arm();
  b.bell.ring();
  BOOST_TEST(!b.bell.disarm());
}

BOOST_AUTO_TEST_CASE(no_wake_up_is_lost_between_two_threads) {
  constexpr std::uint64_t kRounds = 20'000;
  constexpr int kPatienceMs =
      20'000; // of a machine with more to do; a lost wake-up would last for ever
  const Ring ring = Ring::create(4096, 0);
  const UniqueFd fd(create_eventfd());
  const Doorbell bell(fd.get(), ring.header().asleep);
  std::atomic<std::uint64_t> taken{0};
  std::thread producer([&] {
    RingWriter writer(ring);
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      while (writer.reserve(64) == nullptr)
        std::this_thread::yield();
      writer.commit(64);
      bell.ring();
      // Now and then let it fall asleep first, so that both orders come up.
      while (i % 3 == 0 && taken.load(std::memory_order_relaxed) <= i)
        std::this_thread::yield();
    }
  });
  RingReader reader(ring);
  bool lost = false;
  while (taken < kRounds && !lost) {
    const auto published = reader.peek();
    if (!published.empty()) {
      reader.skip(published.size());
      reader.free_to(reader.position());
      taken += published.size() / 64;
      continue;
    }
    bell.arm();
    if (!reader.has_more())
      lost = !is_readable(fd.get(), kPatienceMs);
    if (!bell.disarm())
      bell.clear();
  }
  taken = kRounds; // lets the producer go
  producer.join();
  BOOST_TEST(!lost);
}
