#include "example_writer.hpp"

#include <bit>
#include <cstring>

namespace headrace {

namespace {

constexpr std::size_t kMaxVarint = 10;

// What stands before a length-delimited field: its number, below 16, and the wire type 2.
constexpr char tag_of(unsigned field) noexcept { return static_cast<char>(field << 3 | 2); }

char *put_varint(std::uint64_t value, char *out) noexcept {
  for (; value >= 0x80; value >>= 7)
    *out++ = static_cast<char>((value & 0x7F) | 0x80);
  *out++ = static_cast<char>(value);
  return out;
}

std::uint64_t varint_size(std::uint64_t value) noexcept {
  return static_cast<std::uint64_t>(std::bit_width(value | 1) + 6) / 7;
}

// Bytes of a length-delimited field that holds `size` of them.
std::uint64_t field_size(std::uint64_t size) noexcept { return 1 + varint_size(size) + size; }

void append_head(unsigned field, std::uint64_t size, ByteBuffer &out) {
  char *at = out.reserve(1 + kMaxVarint);
  *at++ = tag_of(field);
  out.commit_to(put_varint(size, at));
}

void append_field(unsigned field, std::string_view bytes, ByteBuffer &out) {
  append_head(field, bytes.size(), out);
  out.append(bytes);
}

} // namespace

std::string_view name_of(FeatureKind kind) noexcept {
  switch (kind) {
  case FeatureKind::kNone:
    return "none";
  case FeatureKind::kBytes:
    return "bytes";
  case FeatureKind::kFloat:
    return "float";
  case FeatureKind::kInt64:
    return "int64";
  }
  return "";
}

void ExampleWriter::begin_feature() noexcept {
  values_.clear();
  kind_ = FeatureKind::kNone;
}

void ExampleWriter::add_bytes(std::string_view bytes) {
  kind_ = FeatureKind::kBytes;
  append_field(1, bytes, values_);
}

void ExampleWriter::add_float(float value) {
  static_assert(std::endian::native == std::endian::little, "floats on the wire are little-endian");
  kind_ = FeatureKind::kFloat;
  std::memcpy(values_.reserve(sizeof value), &value, sizeof value);
  values_.commit(sizeof value);
}

void ExampleWriter::add_int64(std::int64_t value) {
  kind_ = FeatureKind::kInt64;
  values_.commit_to(put_varint(static_cast<std::uint64_t>(value), values_.reserve(kMaxVarint)));
}

void ExampleWriter::end_feature(std::string_view name) {
  // Numbers are one packed field of their list; strings stand as fields of it already.
  const bool packed = kind_ == FeatureKind::kFloat || kind_ == FeatureKind::kInt64;
  const std::uint64_t list = packed ? field_size(values_.size()) : values_.size();
  const std::uint64_t feature = kind_ == FeatureKind::kNone ? 0 : field_size(list);
  append_head(1, field_size(name.size()) + field_size(feature), entries_);
  append_field(1, name, entries_);
  append_head(2, feature, entries_);
  if (kind_ == FeatureKind::kNone)
    return;
  append_head(static_cast<unsigned>(kind_), list, entries_);
  if (packed)
    append_head(1, values_.size(), entries_);
  entries_.append(values_.view());
}

void ExampleWriter::end_example() { append_field(1, entries_.view(), out_); }

} // namespace headrace
