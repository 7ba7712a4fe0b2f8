#include <boost/test/unit_test.hpp>

#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "headrace/byte_buffer.hpp"

using headrace::ByteBuffer;

static_assert(!std::is_copy_constructible_v<ByteBuffer>);
static_assert(!std::is_copy_assignable_v<ByteBuffer>);
static_assert(std::is_nothrow_move_constructible_v<ByteBuffer>);
static_assert(std::is_nothrow_move_assignable_v<ByteBuffer>);

BOOST_AUTO_TEST_CASE(a_new_buffer_is_empty_and_owns_nothing) {
  const ByteBuffer buffer;
  BOOST_TEST(buffer.empty());
  BOOST_TEST(buffer.size() == 0U);
  BOOST_TEST(buffer.capacity() == 0U);
  BOOST_TEST(buffer.view() == "");
}

BOOST_AUTO_TEST_CASE(contents_survive_growth) {
  ByteBuffer buffer;
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string text(static_cast<std::size_t>(i % 97), static_cast<char>('a' + i % 26));
    buffer.append(text);
    buffer.append(';');
    expected += text + ';';
  }
  BOOST_TEST(buffer.view() == expected);
  BOOST_TEST(buffer.bytes().size() == expected.size());
}

BOOST_AUTO_TEST_CASE(reserved_room_counts_only_once_committed) {
  ByteBuffer buffer;
  char *out = buffer.reserve(100);
  std::memcpy(out, "abcdef", 6);
  BOOST_TEST(buffer.empty());
  buffer.commit(2);
  BOOST_TEST(buffer.view() == "ab");
  BOOST_TEST(buffer.capacity() >= 100U);
  buffer.commit_to(out + 5);
  BOOST_TEST(buffer.view() == "abcde");
}

BOOST_AUTO_TEST_CASE(room_that_is_there_is_not_asked_for_again) {
  ByteBuffer buffer(1000);
  const std::size_t capacity = buffer.capacity();
  const void *before = buffer.data(); // not char *, which Boost.Test would compare as text
  buffer.append(std::string(capacity, 'x'));
  BOOST_TEST(buffer.capacity() == capacity);
  BOOST_TEST(static_cast<const void *>(buffer.data()) == before);
}

BOOST_AUTO_TEST_CASE(truncate_and_clear_keep_the_memory) {
  ByteBuffer buffer;
  buffer.append("abcdef");
  const std::size_t capacity = buffer.capacity();
  buffer.truncate(3);
  BOOST_TEST(buffer.view() == "abc");
  buffer.clear();
  BOOST_TEST(buffer.empty());
  BOOST_TEST(buffer.capacity() == capacity);
}

BOOST_AUTO_TEST_CASE(a_moved_from_buffer_is_empty_and_usable) {
  ByteBuffer first;
  first.append("text");
  ByteBuffer second(std::move(first));
  BOOST_TEST(second.view() == "text");
  BOOST_TEST(first.empty()); // NOLINT(bugprone-use-after-move): that is what is tested
  first.append("again");
  BOOST_TEST(first.view() == "again");
  second = std::move(first);
  BOOST_TEST(second.view() == "again");
  BOOST_TEST(first.capacity() == 0U); // NOLINT(bugprone-use-after-move)
}

BOOST_AUTO_TEST_CASE(an_impossible_size_throws_and_keeps_the_contents) {
  ByteBuffer buffer;
  buffer.append("kept");
  BOOST_CHECK_THROW(buffer.reserve(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
  BOOST_CHECK_THROW(buffer.reserve(std::numeric_limits<std::size_t>::max() / 2), std::bad_alloc);
  BOOST_TEST(buffer.view() == "kept");
}

BOOST_AUTO_TEST_CASE(appending_nothing_is_fine) {
  ByteBuffer buffer;
  buffer.append(std::string_view());
  BOOST_TEST(buffer.empty());
}
