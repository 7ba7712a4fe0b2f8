#include "headrace/record.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace headrace {

namespace {

struct EntryHead {
  std::uint32_t index;
  DType dtype;
  std::uint8_t rank;
  std::uint16_t name_bytes;
  std::uint64_t offset;
  std::uint64_t bytes;
};
static_assert(sizeof(EntryHead) == 24 && offsetof(EntryHead, offset) == 8);

struct ErrorHead {
  std::uint32_t code;
  std::uint32_t path;
  std::uint32_t message;
};

const std::byte *bytes_of(const RecordHeader &record) noexcept {
  return reinterpret_cast<const std::byte *>(&record);
}

std::uint64_t entry_bytes(std::size_t rank, std::size_t name_bytes) noexcept {
  return sizeof(EntryHead) + 8 * rank + align_up(name_bytes, 8);
}

// The entry at `at` and what follows it; the bounds are the caller's concern.
TensorRef read_entry(const std::byte *at, const EntryHead &head) noexcept {
  const std::byte *dims = at + sizeof(EntryHead);
  return {
      .index = head.index,
      .name = {reinterpret_cast<const char *>(dims + 8 * std::size_t{head.rank}), head.name_bytes},
      .dtype = head.dtype,
      .dims = {reinterpret_cast<const std::uint64_t *>(dims), head.rank},
      .offset = head.offset,
      .bytes = head.bytes};
}

// The product of the extents; nothing where it overflows. An extent of 0 makes it 0, however large
// the others are.
std::optional<std::uint64_t> count_elements(std::span<const std::uint64_t> dims) noexcept {
  if (std::find(dims.begin(), dims.end(), 0U) != dims.end())
    return 0;
  std::uint64_t n = 1;
  for (const std::uint64_t extent : dims)
    if (__builtin_mul_overflow(n, extent, &n))
      return std::nullopt;
  return n;
}

const char *check_strings(const TensorRef &tensor, std::uint64_t elements,
                          const std::byte *data) noexcept {
  // 8 * (elements + 1) <= bytes, without the overflow.
  if (tensor.bytes % 8 != 0 || elements >= tensor.bytes / 8)
    return "a string tensor without room for its offsets";
  const std::uint64_t text_bytes = tensor.bytes - 8 * (elements + 1);
  const auto *offsets = reinterpret_cast<const std::uint64_t *>(data + tensor.offset + text_bytes);
  if (offsets[0] != 0)
    return "string offsets that do not begin at 0";
  // All of them, without an early exit: the loop vectorises, and wrong records are rare.
  bool ascending = true;
  for (std::uint64_t i = 0; i < elements; ++i)
    ascending &= offsets[i] <= offsets[i + 1];
  if (!ascending || offsets[elements] > text_bytes)
    return "string offsets out of bounds";
  return nullptr;
}

const char *check_tensor(const TensorRef &tensor, std::uint64_t rows,
                         std::span<const std::byte> data) noexcept {
  if (tensor.dtype >= DType::kUnsupported)
    return "an unknown dtype";
  if (rows != 0 && (tensor.dims.empty() || tensor.dims[0] != rows))
    return "a tensor without the record's rows";
  if (tensor.offset % kTensorAlignment != 0 || tensor.offset > data.size() ||
      tensor.bytes > data.size() - tensor.offset)
    return "a tensor out of bounds";
  const auto elements = count_elements(tensor.dims);
  if (!elements)
    return "a shape with too many elements";
  if (tensor.dtype == DType::kString)
    return check_strings(tensor, *elements, data.data());
  std::uint64_t expected = 0;
  if (__builtin_mul_overflow(*elements, item_size(tensor.dtype), &expected) ||
      expected != tensor.bytes)
    return "a tensor whose bytes do not agree with its shape";
  return nullptr;
}

RecordHeader *construct_header(std::byte *at, const RecordHeader &fields) noexcept {
  return new (at) RecordHeader{.length = 0,
                               .table = 0,
                               .state = fields.state.load(std::memory_order_relaxed),
                               .signature = fields.signature,
                               .tensors = 0,
                               .kind = fields.kind,
                               .flags = fields.flags,
                               .batch = fields.batch,
                               .batch_rows = fields.batch_rows,
                               .request_id = fields.request_id,
                               .ticket = fields.ticket,
                               .rows = fields.rows,
                               .time_a_ns = fields.time_a_ns,
                               .time_b_ns = fields.time_b_ns};
}

} // namespace

TableWalk::TableWalk(const RecordHeader &record) noexcept
    : at_(bytes_of(record) + record.table), left_(record.tensors) {}

std::optional<TensorRef> TableWalk::next() noexcept {
  if (left_ == 0)
    return std::nullopt;
  --left_;
  EntryHead head;
  std::memcpy(&head, at_, sizeof head);
  const TensorRef tensor = read_entry(at_, head);
  at_ += entry_bytes(head.rank, head.name_bytes);
  return tensor;
}

std::uint64_t table_bytes(std::span<const TableEntry> entries) noexcept {
  std::uint64_t bytes = 0;
  for (const TableEntry &entry : entries)
    bytes += entry_bytes(entry.shape.rank(), entry.name.size());
  return bytes;
}

std::uint64_t max_table_bytes(std::size_t inputs) noexcept {
  return inputs * entry_bytes(kMaxRank, 0);
}

void write_table(std::byte *at, std::span<const TableEntry> entries) noexcept {
  for (const TableEntry &entry : entries) {
    const auto dims = entry.shape.dims();
    const EntryHead head{entry.index,
                         entry.dtype,
                         static_cast<std::uint8_t>(dims.size()),
                         static_cast<std::uint16_t>(entry.name.size()),
                         entry.offset,
                         entry.bytes};
    std::memcpy(at, &head, sizeof head);
    std::byte *rest = at + sizeof head;
    if (!dims.empty())
      std::memcpy(rest, dims.data(), dims.size_bytes());
    if (!entry.name.empty())
      std::memcpy(rest + dims.size_bytes(), entry.name.data(), entry.name.size());
    at += entry_bytes(dims.size(), entry.name.size());
  }
}

std::uint32_t finish_record(std::byte *at, const RecordHeader &fields, std::uint64_t data_bytes,
                            std::span<const TableEntry> entries) noexcept {
  const std::uint64_t table = align_up(kRecordDataOffset + data_bytes, 8);
  write_table(at + table, entries);
  RecordHeader *record = construct_header(at, fields);
  record->table = static_cast<std::uint32_t>(table);
  record->tensors = static_cast<std::uint16_t>(entries.size());
  record->length = static_cast<std::uint32_t>(align_up(table + table_bytes(entries), kCacheLine));
  return record->length;
}

std::uint64_t error_record_bytes(const ErrorText &text) noexcept {
  return align_up(kRecordDataOffset + sizeof(ErrorHead) + text.code.size() + text.path.size() +
                      text.message.size(),
                  kCacheLine);
}

std::uint32_t write_error_record(std::byte *at, const RecordHeader &fields,
                                 const ErrorText &text) noexcept {
  RecordHeader *record = construct_header(at, fields);
  record->kind = RecordKind::kError;
  record->table = kRecordDataOffset;
  record->length = static_cast<std::uint32_t>(error_record_bytes(text));
  const ErrorHead head{static_cast<std::uint32_t>(text.code.size()),
                       static_cast<std::uint32_t>(text.path.size()),
                       static_cast<std::uint32_t>(text.message.size())};
  std::byte *out = at + kRecordDataOffset;
  std::memcpy(out, &head, sizeof head);
  out += sizeof head;
  for (const std::string_view part : {text.code, text.path, text.message}) {
    if (!part.empty())
      std::memcpy(out, part.data(), part.size());
    out += part.size();
  }
  return record->length;
}

RecordHeader *find_record(std::span<std::byte> published) noexcept {
  if (published.size() < sizeof(RecordHeader))
    return nullptr;
  auto *record = reinterpret_cast<RecordHeader *>(published.data());
  const bool known_kind = record->kind == RecordKind::kRequest ||
                          record->kind == RecordKind::kReply || record->kind == RecordKind::kError;
  const bool in_bounds = record->length >= sizeof(RecordHeader) &&
                         record->length % kCacheLine == 0 && record->length <= published.size() &&
                         record->table >= kRecordDataOffset && record->table % 8 == 0 &&
                         record->table <= record->length;
  return known_kind && in_bounds ? record : nullptr;
}

const char *check_tensors(const RecordHeader &record, std::span<const std::byte> data) noexcept {
  const std::byte *at = bytes_of(record) + record.table;
  const std::byte *end = bytes_of(record) + record.length;
  std::uint32_t next_index = 0; // the smallest that may follow
  for (std::uint32_t i = 0; i < record.tensors; ++i) {
    const auto room = static_cast<std::uint64_t>(end - at);
    EntryHead head;
    if (room < sizeof head)
      return "a tensor table out of bounds";
    std::memcpy(&head, at, sizeof head);
    if (head.rank > kMaxRank || entry_bytes(head.rank, head.name_bytes) > room)
      return "a tensor table out of bounds";
    if ((head.index == kUndeclared) != (head.name_bytes != 0))
      return "a tensor without a name, or with two";
    if (record.kind == RecordKind::kRequest) { // whose inputs are compared with others' one by one
      if (head.index < next_index || head.index == kUndeclared)
        return "inputs out of order";
      next_index = head.index + 1;
    }
    if (const char *wrong = check_tensor(read_entry(at, head), record.rows, data))
      return wrong;
    at += entry_bytes(head.rank, head.name_bytes);
  }
  return nullptr;
}

std::span<const std::byte> inline_data(const RecordHeader &record) noexcept {
  return {bytes_of(record) + kRecordDataOffset, record.table - kRecordDataOffset};
}

std::optional<ErrorText> read_error(const RecordHeader &record) noexcept {
  const std::uint64_t room = record.length - kRecordDataOffset;
  ErrorHead head;
  if (room < sizeof head)
    return std::nullopt;
  const std::byte *at = bytes_of(record) + kRecordDataOffset;
  std::memcpy(&head, at, sizeof head);
  if (std::uint64_t{head.code} + head.path + head.message > room - sizeof head)
    return std::nullopt;
  const auto *text = reinterpret_cast<const char *>(at + sizeof head);
  return ErrorText{{text, head.code},
                   {text + head.code, head.path},
                   {text + head.code + head.path, head.message}};
}

} // namespace headrace
