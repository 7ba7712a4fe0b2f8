#include <boost/test/unit_test.hpp>

#include <csignal>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "headrace/ring.hpp"

using namespace headrace;

namespace {

constexpr std::uint64_t kSmallest = 4096;

// A record of the tests: its length, its number, then bytes that follow from both.
struct Stamp {
  std::uint64_t bytes;
  std::uint64_t number;
};

void write_record(std::byte *at, std::uint64_t bytes, std::uint64_t number) {
  const Stamp stamp{bytes, number};
  std::memcpy(at, &stamp, sizeof stamp);
  for (std::uint64_t i = sizeof stamp; i < bytes; ++i)
    at[i] = static_cast<std::byte>(number * 31 + i);
}

// The record's length, or 0 where it is not record `number`, whole.
std::uint64_t check_record(std::span<const std::byte> published, std::uint64_t number) {
  Stamp stamp{};
  if (published.size() < sizeof stamp)
    return 0;
  std::memcpy(&stamp, published.data(), sizeof stamp);
  if (stamp.number != number || stamp.bytes > published.size())
    return 0;
  for (std::uint64_t i = sizeof stamp; i < stamp.bytes; ++i)
    if (published[i] != static_cast<std::byte>(number * 31 + i))
      return 0;
  return stamp.bytes;
}

bool is_refused(UniqueFd fd) {
  try {
    Ring::attach(std::move(fd));
  } catch (const BrokenPeer &) {
    return true;
  }
  return false;
}

} // namespace

BOOST_AUTO_TEST_CASE(capacity_is_a_power_of_two_and_at_least_a_page) {
  BOOST_TEST(Ring::create(1, 0).capacity() == page_size());
  BOOST_TEST(Ring::create(4097, 0).capacity() == 8192U);
  BOOST_CHECK_THROW(Ring::create(kMaxRingCapacity + 1, 0), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(the_other_side_attaches_to_the_same_memory) {
  Ring ring = Ring::create(kSmallest, 7);
  Ring other = Ring::attach(UniqueFd::duplicate(ring.fd()));
  BOOST_TEST(other.generation() == 7U);
  RingWriter writer(ring);
  write_record(writer.reserve(100), 100, 5);
  writer.commit(100);
  RingReader reader(other);
  BOOST_TEST(check_record(reader.peek(), 5) == 100U);
}

BOOST_AUTO_TEST_CASE(what_is_no_ring_is_refused) {
  BOOST_TEST(is_refused(create_memory_file("unsealed", 8192)));
  UniqueFd odd = create_memory_file("odd size", 8192 + 100);
  seal(odd.get(), false);
  BOOST_TEST(is_refused(std::move(odd)));
  UniqueFd blank = create_memory_file("no magic", 8192);
  seal(blank.get(), false);
  BOOST_TEST(is_refused(std::move(blank)));
  Ring ring = Ring::create(kSmallest, 0);
  ring.header().layout_version += 1;
  BOOST_TEST(is_refused(UniqueFd::duplicate(ring.fd())));
}

BOOST_AUTO_TEST_CASE(records_of_every_size_pass_at_every_place_of_the_smallest_ring) {
  const Ring ring = Ring::create(kSmallest, 0);
  RingWriter writer(ring);
  RingReader reader(ring);
  std::uint64_t number = 0;
  for (std::uint64_t bytes = sizeof(Stamp); bytes <= kSmallest; ++bytes, ++number) {
    std::byte *at = writer.reserve(bytes);
    BOOST_REQUIRE(at != nullptr);
    BOOST_REQUIRE(reinterpret_cast<std::uintptr_t>(at) % kCacheLine == 0);
    write_record(at, bytes, number);
    writer.commit(bytes);
    const auto published = reader.peek();
    BOOST_REQUIRE(published.size() == align_up(bytes, kCacheLine));
    BOOST_REQUIRE(check_record(published, number) == bytes);
    reader.skip(published.size());
    reader.free_to(reader.position());
  }
}

BOOST_AUTO_TEST_CASE(a_record_that_crosses_the_end_is_contiguous) {
  const Ring ring = Ring::create(kSmallest, 0);
  RingWriter writer(ring);
  RingReader reader(ring);
  writer.reserve(kSmallest - 64);
  writer.commit(kSmallest - 64);
  reader.skip(reader.peek().size());
  reader.free_to(reader.position());
  std::byte *at = writer.reserve(1000);
  write_record(at, 1000, 3);
  writer.commit(1000);
  BOOST_TEST(check_record(reader.peek(), 3) == 1000U);
  BOOST_TEST(std::memcmp(ring.at(kSmallest), at + 64, 936) == 0);
}

BOOST_AUTO_TEST_CASE(full_is_a_result_and_leaves_everything_as_it_was) {
  const Ring ring = Ring::create(kSmallest, 0);
  RingWriter writer(ring);
  RingReader reader(ring);
  BOOST_TEST(writer.reserve(kSmallest + 1) == nullptr);
  for (std::uint64_t i = 0; i < 4; ++i) {
    write_record(writer.reserve(1024), 1024, i);
    writer.commit(1024);
  }
  BOOST_TEST(writer.used() == kSmallest);
  BOOST_TEST(writer.reserve(1) == nullptr);
  for (std::uint64_t i = 0; i < 4; ++i) {
    BOOST_TEST(check_record(reader.peek(), i) == 1024U);
    reader.skip(1024);
  }
  BOOST_TEST(reader.peek().empty());
  BOOST_TEST(writer.reserve(1) == nullptr);
  reader.free_to(1024);
  BOOST_TEST(writer.reserve(1025) == nullptr);
  BOOST_TEST(writer.reserve(1024) != nullptr);
}

BOOST_AUTO_TEST_CASE(a_reservation_that_is_not_committed_is_not_seen) {
  const Ring ring = Ring::create(kSmallest, 0);
  RingWriter writer(ring);
  RingReader reader(ring);
  write_record(writer.reserve(500), 500, 1);
  BOOST_TEST(!reader.has_more());
  write_record(writer.reserve(100), 100, 2);
  writer.commit(100);
  BOOST_TEST(reader.has_more());
  BOOST_TEST(check_record(reader.peek(), 2) == 100U);
}

BOOST_AUTO_TEST_CASE(a_producer_that_frees_sees_what_the_consumer_has_passed) {
  const Ring ring = Ring::create(kSmallest, 0);
  RingWriter writer(ring);
  RingReader reader(ring);
  writer.reserve(kSmallest);
  writer.commit(kSmallest);
  reader.skip(reader.peek().size());
  reader.pass_to(reader.position());
  BOOST_TEST(writer.passed() == kSmallest);
  BOOST_TEST(writer.reserve(64) == nullptr);
  writer.free_to(64);
  BOOST_TEST(writer.reserve(64) != nullptr);
}

BOOST_AUTO_TEST_CASE(positions_that_cannot_be_are_not_followed) {
  const Ring ring = Ring::create(kSmallest, 0);
  RingWriter writer(ring);
  RingReader reader(ring);
  writer.reserve(kSmallest);
  writer.commit(kSmallest);
  for (const std::uint64_t tail : {kSmallest + 64, ~std::uint64_t{0}}) {
    ring.header().tail.store(tail);
    BOOST_TEST(writer.reserve(64) == nullptr);
  }
  for (const std::uint64_t head : {kSmallest + 64, std::uint64_t{100}, ~std::uint64_t{63}}) {
    ring.header().head.store(head);
    BOOST_CHECK_THROW(RingReader(ring).peek(), BrokenPeer);
  }
}

namespace {

void produce(const Ring &ring, std::uint64_t records, std::uint64_t seed) {
  RingWriter writer(ring);
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(seed));
  for (std::uint64_t number = 0; number < records;) {
    const std::uint64_t bytes = sizeof(Stamp) + random() % (ring.capacity() / 3);
    std::byte *at = writer.reserve(bytes);
    if (at == nullptr) {
      std::this_thread::yield();
      continue;
    }
    write_record(at, bytes, number++);
    writer.commit(bytes);
  }
}

} // namespace

BOOST_AUTO_TEST_CASE(two_threads_pass_records_in_order_without_loss) {
  constexpr std::uint64_t kRecords = 20'000;
  const Ring ring = Ring::create(kSmallest, 0);
  std::thread producer([&] { produce(ring, kRecords, 1); });
  RingReader reader(ring);
  std::uint64_t wrong = 0;
  for (std::uint64_t number = 0; number < kRecords;) {
    const auto published = reader.peek();
    if (published.empty()) {
      std::this_thread::yield();
      continue;
    }
    const std::uint64_t bytes = check_record(published, number++);
    wrong += bytes == 0;
    if (bytes == 0)
      break;
    reader.skip(align_up(bytes, kCacheLine));
    reader.free_to(reader.position());
  }
  producer.join();
  BOOST_TEST(wrong == 0U);
  BOOST_TEST(!reader.has_more());
}

// Not under ThreadSanitizer, which does not follow a fork.
#ifndef __SANITIZE_THREAD__
BOOST_AUTO_TEST_CASE(a_killed_producer_leaves_no_hole) {
  for (std::uint64_t round = 0; round < 40; ++round) {
    const Ring ring = Ring::create(1 << 16, round);
    const pid_t child = ::fork();
    if (child == 0) {
      produce(ring, ~std::uint64_t{0}, round + 1);
      ::_exit(1);
    }
    RingReader reader(ring);
    std::uint64_t number = 0;
    const auto drain = [&] {
      for (auto published = reader.peek(); !published.empty(); published = reader.peek()) {
        const std::uint64_t bytes = check_record(published, number);
        if (bytes == 0)
          return false;
        ++number;
        reader.skip(align_up(bytes, kCacheLine));
        reader.free_to(reader.position());
      }
      return true;
    };
    bool whole = true;
    while (whole && number < 100 + 37 * round) // in the middle of whatever it does by then
      whole = drain();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    BOOST_REQUIRE(whole);
    BOOST_REQUIRE(drain());
    BOOST_REQUIRE(reader.position() == ring.header().head.load());
  }
}
#endif
