#include <boost/test/unit_test.hpp>

#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "headrace/record.hpp"
#include "headrace/rows.hpp"

using namespace headrace;

namespace {

Shape shape_of(std::vector<std::uint64_t> dims) { return Shape(dims); }

// A record in memory of exactly its size, so that a sanitizer sees every byte read beyond it.
class OwnRecord {
public:
  explicit OwnRecord(std::span<const std::byte> bytes) : buffer_(bytes.size()) {
    std::memcpy(buffer_.data(), bytes.data(), bytes.size());
  }
  std::span<std::byte> bytes() { return {buffer_.data(), buffer_.size()}; }
  RecordHeader &header() { return *reinterpret_cast<RecordHeader *>(buffer_.data()); }

private:
  AlignedBuffer buffer_;
};

constexpr std::uint64_t kNumbersOffset = 0;
constexpr std::uint64_t kStringsOffset = 64;

// Two rows: a (2, 3) float32 tensor and two strings, "ab" and "".
OwnRecord sample(RecordKind kind = RecordKind::kRequest) {
  std::vector<std::byte> room(1024);
  AlignedBuffer aligned(1024);
  std::byte *at = aligned.data();
  std::byte *data = at + kRecordDataOffset;
  std::memset(data, 0, 200);
  std::memcpy(data + kStringsOffset, "ab", 2);
  const std::uint64_t offsets[] = {0, 2, 2};
  std::memcpy(data + kStringsOffset + 8, offsets, sizeof offsets);
  std::vector<TableEntry> entries(2);
  entries[0].index = 0;
  entries[0].shape = shape_of({2, 3});
  entries[0].offset = kNumbersOffset;
  entries[0].bytes = 24;
  entries[1].index = 1;
  entries[1].dtype = DType::kString;
  entries[1].shape = shape_of({2});
  entries[1].offset = kStringsOffset;
  entries[1].bytes = 32;
  if (kind == RecordKind::kReply) {
    entries[1].index = kUndeclared;
    entries[1].name = "an output of its own";
  }
  const RecordHeader fields{.kind = kind, .request_id = 11, .ticket = 3, .rows = 2};
  const std::uint32_t length = finish_record(at, fields, kStringsOffset + 32, entries);
  return OwnRecord({at, length});
}

// Offset of the table's entry i in `sample()`.
std::size_t entry_at(OwnRecord &record, std::size_t i) {
  return record.header().table + (i == 0 ? 0 : 24 + 2 * 8);
}

template <class T> void poke(OwnRecord &record, std::size_t at, T value) {
  std::memcpy(record.bytes().data() + at, &value, sizeof value);
}

const char *check(OwnRecord &record) {
  const RecordHeader *found = find_record(record.bytes());
  return found == nullptr ? "no record" : check_tensors(*found, inline_data(*found));
}

} // namespace

BOOST_AUTO_TEST_CASE(a_request_reads_back_as_it_was_written) {
  OwnRecord record = sample();
  BOOST_TEST(check(record) == nullptr);
  BOOST_TEST(record.header().length % 64 == 0U);
  BOOST_TEST(record.header().request_id == 11U);
  TableWalk walk(record.header());
  const auto numbers = walk.next();
  BOOST_REQUIRE(numbers.has_value());
  BOOST_TEST((numbers->dtype == DType::kFloat32 && numbers->dims.size() == 2));
  const auto strings = walk.next();
  BOOST_REQUIRE(strings.has_value());
  const TensorView view = strings->view(inline_data(record.header()).data());
  BOOST_TEST(view.string_at(0) == "ab");
  BOOST_TEST(view.string_at(1).empty());
  BOOST_TEST(!walk.next().has_value());
}

BOOST_AUTO_TEST_CASE(an_undeclared_output_carries_its_name) {
  OwnRecord record = sample(RecordKind::kReply);
  BOOST_TEST(check(record) == nullptr);
  TableWalk walk(record.header());
  walk.next();
  BOOST_TEST(walk.next()->name == "an output of its own");
}

BOOST_AUTO_TEST_CASE(a_scalar_and_rank_64_have_their_tables) {
  AlignedBuffer room(2048);
  std::memset(room.data(), 0, 2048);
  std::vector<TableEntry> entries(2);
  entries[0].bytes = 4;
  entries[1].index = 1;
  entries[1].shape = shape_of(std::vector<std::uint64_t>(64, 1));
  entries[1].offset = 64;
  entries[1].bytes = 4;
  BOOST_TEST(table_bytes(entries) <= max_table_bytes(2));
  const std::uint32_t length = finish_record(room.data(), {}, 68, entries);
  OwnRecord record({room.data(), length});
  BOOST_TEST(check(record) == nullptr);
}

BOOST_AUTO_TEST_CASE(headers_that_cannot_be_are_not_found) {
  const std::vector<std::function<void(RecordHeader &)>> defects = {
      [](RecordHeader &h) { h.length = 0; },
      [](RecordHeader &h) { h.length += 64; },
      [](RecordHeader &h) { h.length -= 1; },
      [](RecordHeader &h) { h.length = std::numeric_limits<std::uint32_t>::max(); },
      [](RecordHeader &h) { h.table = 0; },
      [](RecordHeader &h) { h.table = h.length + 8; },
      [](RecordHeader &h) { h.table += 1; },
      [](RecordHeader &h) { h.kind = static_cast<RecordKind>(0); },
      [](RecordHeader &h) { h.kind = static_cast<RecordKind>(3); },
  };
  for (const auto &defect : defects) {
    OwnRecord record = sample();
    defect(record.header());
    BOOST_TEST(find_record(record.bytes()) == nullptr);
  }
  BOOST_TEST(find_record({}) == nullptr);
}

BOOST_AUTO_TEST_CASE(tables_that_cannot_be_are_refused) {
  const std::uint64_t huge = std::uint64_t{1} << 63;
  const std::vector<std::function<void(OwnRecord &)>> defects = {
      [](OwnRecord &r) { r.header().tensors = 3; },
      [](OwnRecord &r) { r.header().tensors = 0xFFFF; },
      [](OwnRecord &r) { r.header().rows = 3; },
      [](OwnRecord &r) { poke<std::uint32_t>(r, entry_at(r, 0), 1); },           // order
      [](OwnRecord &r) { poke<std::uint32_t>(r, entry_at(r, 1), kUndeclared); }, // no name
      [](OwnRecord &r) { poke<std::uint8_t>(r, entry_at(r, 0) + 4, 14); },       // dtype
      [](OwnRecord &r) { poke<std::uint8_t>(r, entry_at(r, 0) + 5, 65); },       // rank
      [](OwnRecord &r) { poke<std::uint8_t>(r, entry_at(r, 1) + 5, 60); },       // beyond
      [](OwnRecord &r) { poke<std::uint8_t>(r, entry_at(r, 0) + 5, 0); },        // no rows
      [](OwnRecord &r) { poke<std::uint16_t>(r, entry_at(r, 1) + 6, 0xFFFF); },  // name
      [](OwnRecord &r) { poke<std::uint64_t>(r, entry_at(r, 0) + 8, 4); },       // alignment
      [](OwnRecord &r) { poke<std::uint64_t>(r, entry_at(r, 0) + 8, 1 << 20); }, // bounds
      [=](OwnRecord &r) { poke<std::uint64_t>(r, entry_at(r, 0) + 8, huge); },
      [](OwnRecord &r) { poke<std::uint64_t>(r, entry_at(r, 0) + 16, 23); }, // bytes
      [=](OwnRecord &r) { poke<std::uint64_t>(r, entry_at(r, 0) + 16, ~huge); },
      [=](OwnRecord &r) { poke<std::uint64_t>(r, entry_at(r, 0) + 32, huge); }, // overflow
      [=](OwnRecord &r) { poke<std::uint64_t>(r, entry_at(r, 0) + 32, huge | 3); },
      [](OwnRecord &r) { poke<std::uint64_t>(r, entry_at(r, 1) + 16, 16); },     // offsets
      [](OwnRecord &r) { poke<std::uint64_t>(r, 64 + kStringsOffset + 8, 1); },  // first
      [](OwnRecord &r) { poke<std::uint64_t>(r, 64 + kStringsOffset + 16, 3); }, // descend
      [](OwnRecord &r) { poke<std::uint64_t>(r, 64 + kStringsOffset + 24, 9); }, // beyond
      [=](OwnRecord &r) { poke<std::uint64_t>(r, 64 + kStringsOffset + 24, huge); },
  };
  for (std::size_t i = 0; i < defects.size(); ++i) {
    OwnRecord record = sample();
    defects[i](record);
    BOOST_TEST(check(record) != nullptr, "defect " << i << " went unseen");
  }
}

BOOST_AUTO_TEST_CASE(no_elements_are_no_overflow) {
  OwnRecord record = sample();
  record.header().rows = 0;
  poke<std::uint64_t>(record, entry_at(record, 0) + 24, 0);
  poke<std::uint64_t>(record, entry_at(record, 0) + 32, ~std::uint64_t{0});
  poke<std::uint64_t>(record, entry_at(record, 0) + 16, 0);
  BOOST_TEST(check(record) == nullptr);
}

BOOST_AUTO_TEST_CASE(whatever_passes_the_checks_can_be_read) {
  std::mt19937 random(20240607); // NOLINT(cert-msc51-cpp): repeatable on purpose
  std::uint64_t passed = 0;
  std::uint64_t sum = 0;
  for (int round = 0; round < 200'000; ++round) {
    OwnRecord record = sample(round % 2 == 0 ? RecordKind::kRequest : RecordKind::kReply);
    const auto bytes = record.bytes();
    for (auto left = 1 + random() % 4; left > 0; --left) {
      const std::size_t at = random() % bytes.size();
      const auto value = static_cast<unsigned char>(random() % 3 == 0 ? random() : random() % 4);
      bytes[at] = static_cast<std::byte>(value);
    }
    const RecordHeader *found = find_record(bytes);
    if (found == nullptr)
      continue;
    if (const auto error = read_error(*found))
      sum += error->code.size() + error->path.size() + error->message.size();
    const auto data = inline_data(*found);
    if (check_tensors(*found, data) != nullptr)
      continue;
    ++passed;
    TableWalk walk(*found);
    while (const auto tensor = walk.next()) {
      const TensorView view = tensor->view(data.data());
      std::vector<std::byte> copy(range_bytes(whole_range(view)) + 8);
      copy_range(whole_range(view), copy.data());
      sum += tensor->name.size() + static_cast<std::uint64_t>(copy[0]);
    }
  }
  BOOST_TEST(passed > 1000U);
  BOOST_TEST(sum > 0U);
}

BOOST_AUTO_TEST_CASE(an_error_reads_back_as_it_was_written) {
  const ErrorText text{"internal", "instances[3]", "it did not work"};
  AlignedBuffer room(error_record_bytes(text));
  const std::uint32_t length = write_error_record(room.data(), {.request_id = 4}, text);
  OwnRecord record({room.data(), length});
  const RecordHeader *found = find_record(record.bytes());
  BOOST_REQUIRE(found != nullptr);
  BOOST_TEST((found->kind == RecordKind::kError && found->request_id == 4));
  const auto back = read_error(*found);
  BOOST_REQUIRE(back.has_value());
  BOOST_TEST(back->code == text.code);
  BOOST_TEST(back->path == text.path);
  BOOST_TEST(back->message == text.message);
  poke<std::uint32_t>(record, kRecordDataOffset, ~0U);
  BOOST_TEST(!read_error(record.header()).has_value());
}

BOOST_AUTO_TEST_CASE(rows_of_strings_become_a_tensor_of_their_own) {
  OwnRecord record = sample();
  TableWalk walk(record.header());
  walk.next();
  const TensorView all = walk.next()->view(inline_data(record.header()).data());
  for (std::uint64_t first = 0; first < 2; ++first) {
    const ElementRange range = row_range(all, first, 1);
    std::vector<std::uint64_t> room(range_bytes(range) / 8);
    auto *bytes = reinterpret_cast<std::byte *>(room.data());
    copy_range(range, bytes);
    const TensorView part{DType::kString, shape_of({1}), bytes, range_bytes(range)};
    BOOST_TEST(part.string_at(0) == all.string_at(first));
  }
}
