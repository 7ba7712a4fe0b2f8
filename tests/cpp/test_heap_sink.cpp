#include <boost/test/unit_test.hpp>

#include <cstring>

#include "headrace/heap_sink.hpp"

namespace headrace {
namespace {

bool is_aligned(const void *p) {
  return reinterpret_cast<std::uintptr_t>(p) % kTensorAlignment == 0;
}

BOOST_AUTO_TEST_CASE(growth_keeps_what_was_written_and_the_alignment) {
  HeapSink sink(1);
  std::span<std::byte> room = sink.grow(0, 0, 10);
  BOOST_TEST(room.size() >= 10);
  std::memset(room.data(), 7, 10);
  for (std::size_t size = 100; size < 1'000'000; size *= 3) {
    room = sink.grow(0, 10, size);
    BOOST_TEST(room.size() >= size);
    BOOST_TEST(is_aligned(room.data()));
    for (std::size_t i = 0; i < 10; ++i)
      BOOST_REQUIRE((room[i] == std::byte{7}));
  }
}

BOOST_AUTO_TEST_CASE(what_fits_already_is_not_moved) {
  HeapSink sink(1);
  const std::byte *const first = sink.grow(0, 0, 100).data();
  BOOST_TEST(sink.grow(0, 0, 64).data() == first);
}

BOOST_AUTO_TEST_CASE(the_limit_counts_all_tensors_and_what_growth_gives_back) {
  HeapSink sink(2, 1024);
  BOOST_TEST(sink.grow(0, 0, 512).size() >= 512);
  BOOST_TEST(sink.grow(1, 0, 576).empty());
  BOOST_TEST(!sink.grow(1, 0, 256).empty());
  BOOST_TEST(!sink.grow(1, 0, 512).empty());
  BOOST_TEST(sink.grow(0, 0, ~std::size_t{0}).empty());
}

BOOST_AUTO_TEST_CASE(finish_records_dtype_shape_and_bytes) {
  HeapSink sink(0);
  const std::uint64_t dims[] = {2, 3};
  sink.grow(1, 0, 24);
  sink.finish(1, DType::kFloat32, Shape(dims), 24);
  const TensorView view = sink.tensors().at(1).view();
  BOOST_TEST((view.dtype == DType::kFloat32));
  BOOST_TEST(view.shape.elements() == 6);
  BOOST_TEST(view.bytes == 24);
  BOOST_TEST(view.data != nullptr);
}

} // namespace
} // namespace headrace
