// The records in the rings: how requests, replies and errors lie in shared memory, and what is
// checked before any of it is trusted.
//
//       0                   4                   8                   12                  16
//     ┌───────────────────┬───────────────────┬───────────────────┬─────────┬─────────┐
//   0 │ length            │ table             │ state (atomic)    │signature│ tensors │
//     ├────┬────┬─────────┼───────────────────┼───────────────────┴─────────┴─────────┤
//  16 │kind│flgs│batch    │ batch rows        │ request id                            │
//     ├────┴────┴─────────┴───────────────────┼───────────────────────────────────────┤
//  32 │ ticket                                │ rows                                  │
//     ├───────────────────────────────────────┼───────────────────────────────────────┤
//  48 │ deadline_ns (request), run_ns (reply) │ submitted_ns (request), wait_ns       │
//     ├───────────────────────────────────────┴───────────────────────────────────────┤
//  64 │ data: tensors, each on 64 (tensor.hpp says how); none if kFlagByReference     │
//     ├───────────────────────────────────────────────────────────────────────────────┤
// table│ tensor table, then padding to a multiple of 64                                │
//     └───────────────────────────────────────────────────────────────────────────────┘
//
// The table stands last so that a decoder writes tensors in place before it knows their shapes. One
// entry, on 8:
//
//   0 │ index u32 │ dtype u8 │ rank u8 │ name bytes u16 │ offset u64 │ bytes u64 │ dims u64 x rank
//   │ name, padded to 8 │
//
// `index` is the tensor's place among the signature's inputs or outputs sorted by name; an output
// that the signature does not declare has kUndeclared there and its name behind the dims. `offset`
// counts from the record's data, or from the start of the memfd that a kFlagByReference record
// comes with (channel.hpp).
//
// An error record has, in place of data and table, three u32 lengths and then the text of code,
// path and message.
//
// The state word of a request; of the other kinds it is 0. Whoever moves it does so by
// compare-exchange from kWaiting:
//
//     kWaiting ──► kRunning     worker: it is handed to the model; its record stays until its reply
//     was taken
//         ├──────► kCancelled   front end: nobody waits for it any more; freed once the worker has
//         passed it └──────► kExpired     worker: its deadline is over; answered without a run
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/memory_file.hpp"
#include "headrace/ring.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// Values are the layout: never renumber. 3 and 5 are kept for pieces of a reply and for bytes that
/// are no tensors.
enum class RecordKind : std::uint8_t { kRequest = 1, kReply = 2, kError = 4 };

enum class RecordState : std::uint32_t { kWaiting = 0, kRunning = 1, kCancelled = 2, kExpired = 3 };

inline constexpr std::uint8_t kFlagByReference = 1; ///< the data is in a memfd of its own
inline constexpr std::uint8_t kFlagAlone = 2; ///< never shares a batch: it may have killed a worker

inline constexpr std::uint32_t kUndeclared = 0xFFFFFFFF;
inline constexpr std::uint64_t kRecordDataOffset = 64;
/// Inline records are at most this part of a ring, so that a few large ones cannot shut out the
/// small.
inline constexpr std::uint64_t kInlineFraction = 4;

struct RecordHeader {
  std::uint32_t length = 0; ///< of the record, a multiple of 64
  std::uint32_t table = 0;  ///< where the tensor table begins
  std::atomic<RecordState> state = RecordState::kWaiting;
  std::uint16_t signature = 0; ///< index into SignatureSet::all()
  std::uint16_t tensors = 0;   ///< entries of the table
  RecordKind kind = RecordKind::kRequest;
  std::uint8_t flags = 0;
  std::uint16_t batch = 0;      ///< reply: requests of its run, if it is the first of them; else 0
  std::uint32_t batch_rows = 0; ///< likewise: rows
  std::uint64_t request_id = 0; ///< the caller's
  std::uint64_t ticket = 0;     ///< counts the requests of one ring; a reply carries its request's
  std::uint64_t rows = 0;       ///< extent 0 shared by all tensors; 0: they share none
  std::uint64_t time_a_ns =
      0; ///< request: deadline (CLOCK_MONOTONIC, 0: none); else: time the run took
  std::uint64_t time_b_ns = 0; ///< request: when it was submitted; else: time it waited for its run
};

static_assert(sizeof(RecordHeader) == kRecordDataOffset && offsetof(RecordHeader, state) == 8 &&
                  offsetof(RecordHeader, kind) == 16 && offsetof(RecordHeader, request_id) == 24 &&
                  offsetof(RecordHeader, time_b_ns) == 56,
              "the drawing above is the agreement between the processes");
static_assert(std::atomic<RecordState>::is_always_lock_free);

/// One entry of a tensor table, to be written.
struct TableEntry {
  std::uint32_t index = 0;
  std::string_view name; ///< only where index is kUndeclared
  DType dtype = DType::kFloat32;
  Shape shape;
  std::uint64_t offset = 0; ///< in the data, a multiple of 64
  std::uint64_t bytes = 0;
};

/// One entry as it stands in a record; `dims` and `name` point into it.
struct TensorRef {
  std::uint32_t index;
  std::string_view name;
  DType dtype;
  std::span<const std::uint64_t> dims;
  std::uint64_t offset;
  std::uint64_t bytes;

  TensorView view(const std::byte *data) const noexcept {
    return {dtype, Shape(dims), data + offset, bytes};
  }
};

/// Walks the table of a record whose table has been checked.
class TableWalk {
public:
  explicit TableWalk(const RecordHeader &record) noexcept;
  std::optional<TensorRef> next() noexcept;

private:
  const std::byte *at_;
  std::uint32_t left_;
};

/// What an error record says; the views point into it.
struct ErrorText {
  std::string_view code;
  std::string_view path;
  std::string_view message;
};

std::uint64_t table_bytes(std::span<const TableEntry> entries) noexcept;
/// Most that the table of a request can take whose signature has `inputs` inputs.
std::uint64_t max_table_bytes(std::size_t inputs) noexcept;
/// `at`: on a multiple of 8, with table_bytes() of room.
void write_table(std::byte *at, std::span<const TableEntry> entries) noexcept;

/// Fills in a record whose data, `data_bytes` of it, already stands at its place, and its table.
/// `fields` gives the rest of the header. Returns the record's length. Precondition: it fits u32
/// and the room at `at`.
std::uint32_t finish_record(std::byte *at, const RecordHeader &fields, std::uint64_t data_bytes,
                            std::span<const TableEntry> entries) noexcept;

/// Length of the error record for these texts.
std::uint64_t error_record_bytes(const ErrorText &text) noexcept;
/// As finish_record; kind and lengths are set here. Precondition: error_record_bytes() of room.
std::uint32_t write_error_record(std::byte *at, const RecordHeader &fields,
                                 const ErrorText &text) noexcept;

/// The record at the start of `published`, or null where its header cannot be trusted: nothing
/// after it can be found either, so the peer is broken.
RecordHeader *find_record(std::span<std::byte> published) noexcept;

/// Checks the table of a record and the tensors in `data` (the record's own data, or the memfd's
/// bytes): every extent, offset and string offset is in bounds, sizes agree with shapes, a
/// request's indices ascend, `rows` is what it says. Whether the indices exist is for those to
/// check who know the signature. Null: all right; else what is wrong.
const char *check_tensors(const RecordHeader &record, std::span<const std::byte> data) noexcept;

/// The data of a record that carries its own.
std::span<const std::byte> inline_data(const RecordHeader &record) noexcept;

/// The texts of an error record; nothing where they are out of bounds.
std::optional<ErrorText> read_error(const RecordHeader &record) noexcept;

} // namespace headrace
