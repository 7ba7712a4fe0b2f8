#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

#include "headrace/record_sink.hpp"

using namespace headrace;

namespace {

// Appends bytes to tensor `index` of a sink one by one, as a decoder does.
class Feed {
public:
  Feed(TensorSink &sink, std::size_t index) : sink_(&sink), index_(index) {}

  bool add(unsigned char value) {
    if (used_ == room_.size()) {
      room_ = sink_->grow(index_, used_, used_ + 1);
      if (room_.empty())
        return false;
    } else {
      room_ = sink_->grow(index_, used_, used_ + 1);
    }
    room_[used_++] = static_cast<std::byte>(value);
    return true;
  }
  void finish() {
    const std::uint64_t dims[] = {used_};
    sink_->finish(index_, DType::kUint8, Shape(dims), used_);
  }

private:
  TensorSink *sink_;
  std::size_t index_;
  std::size_t used_ = 0;
  std::span<std::byte> room_;
};

bool holds(const std::byte *data, const TableEntry &entry, unsigned char first) {
  for (std::uint64_t i = 0; i < entry.bytes; ++i)
    if (data[entry.offset + i] != static_cast<std::byte>(first + i))
      return false;
  return entry.offset % kTensorAlignment == 0;
}

} // namespace

BOOST_AUTO_TEST_CASE(tensors_one_after_another_grow_in_place) {
  AlignedBuffer region(4096);
  RecordSink sink;
  sink.reset({region.data(), region.size()});
  for (const std::size_t index : {1, 0}) { // a body may name them in any order
    Feed feed(sink, index);
    for (unsigned i = 0; i < 100; ++i)
      BOOST_REQUIRE(feed.add(static_cast<unsigned char>(index + i)));
    feed.finish();
  }
  const auto entries = sink.entries();
  BOOST_REQUIRE(entries.size() == 2U);
  BOOST_TEST((entries[0].index == 0 && holds(region.data(), entries[0], 0)));
  BOOST_TEST((entries[1].index == 1 && holds(region.data(), entries[1], 1)));
  BOOST_TEST(sink.complete());
  BOOST_TEST(sink.data_bytes() == 128 + 100U);
}

BOOST_AUTO_TEST_CASE(tensors_that_grow_in_turn_end_up_whole_in_any_order_of_finishing) {
  std::vector<std::size_t> order = {0, 1, 2};
  AlignedBuffer region(4096);
  RecordSink sink; // used again: what a request left behind must not show in the next
  do {
    sink.reset({region.data(), region.size()});
    std::vector<Feed> feeds = {Feed(sink, 0), Feed(sink, 1), Feed(sink, 2)};
    for (unsigned i = 0; i < 300; ++i)
      for (std::size_t t = 0; t < 3; ++t)
        BOOST_REQUIRE(feeds[t].add(static_cast<unsigned char>(t + i)));
    for (const std::size_t t : order)
      feeds[t].finish();
    const auto entries = sink.entries();
    BOOST_REQUIRE(entries.size() == 3U);
    BOOST_TEST(sink.complete());
    for (std::size_t t = 0; t < 3; ++t)
      BOOST_TEST(holds(region.data(), entries[t], static_cast<unsigned char>(t)));
  } while (std::next_permutation(order.begin(), order.end()));
}

BOOST_AUTO_TEST_CASE(more_than_the_region_takes_is_refused) {
  AlignedBuffer region(256);
  RecordSink sink;
  sink.reset({region.data(), 128});
  BOOST_TEST(sink.grow(0, 0, 129).empty());
  BOOST_TEST(!sink.grow(0, 0, 128).empty());
  BOOST_TEST(sink.grow(1, 0, 129).empty());
  std::memset(sink.grow(1, 0, 100).data(), 1, 100);
  sink.finish(0, DType::kUint8, Shape(), 128);
  sink.finish(1, DType::kUint8, Shape(), 100);
  BOOST_TEST(!sink.complete());
}

BOOST_AUTO_TEST_CASE(a_tensor_that_never_grew_is_empty) {
  AlignedBuffer region(256);
  RecordSink sink;
  sink.reset({region.data(), 256});
  sink.finish(0, DType::kFloat32, Shape(), 0);
  BOOST_TEST(sink.entries().size() == 1U);
  BOOST_TEST(sink.data_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(a_memory_file_holds_tensors_that_grew_in_turn) {
  MemoryFileSink sink(3, 10'000, 1 << 20);
  std::vector<Feed> feeds = {Feed(sink, 0), Feed(sink, 1), Feed(sink, 2)};
  for (unsigned i = 0; i < 5000; ++i)
    for (std::size_t t = 0; t < 3; ++t)
      BOOST_REQUIRE(feeds[t].add(static_cast<unsigned char>(t + i)));
  for (const std::size_t t : {2, 0, 1})
    feeds[t].finish();
  BOOST_TEST(sink.complete());
  BOOST_TEST(sink.data_bytes() == 15'000U);
  const std::vector<TableEntry> entries(sink.entries().begin(), sink.entries().end());
  const UniqueFd file = sink.take_file();
  const std::uint64_t size = sealed_size(file.get(), true);
  const Mapping seen = map_private(file.get(), size);
  for (std::size_t t = 0; t < 3; ++t) {
    BOOST_REQUIRE(entries[t].offset + entries[t].bytes <= size);
    BOOST_TEST(holds(seen.data(), entries[t], static_cast<unsigned char>(t)));
  }
}

BOOST_AUTO_TEST_CASE(a_memory_file_keeps_to_its_limit) {
  MemoryFileSink sink(2, 1 << 20, 1000);
  BOOST_TEST(sink.grow(0, 0, 1001).empty());
  BOOST_TEST(!sink.grow(0, 0, 600).empty());
  sink.finish(0, DType::kUint8, Shape(), 600);
  BOOST_TEST(sink.grow(1, 0, 401).empty());
  BOOST_TEST(!sink.grow(1, 0, 400).empty());
  sink.finish(1, DType::kUint8, Shape(), 400);
  BOOST_TEST(sink.complete());
}
