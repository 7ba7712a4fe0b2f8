// WorkerPort's other half: sending replies.
#include <algorithm>
#include <cerrno>
#include <ctime>
#include <poll.h>
#include <string>
#include <system_error>

#include "headrace/rows.hpp"
#include "headrace/worker_port.hpp"

namespace headrace {

namespace {

// How long a worker sleeps before it looks again for room in a full reply ring. Front ends do not
// ring for room: they would have to look at a flag for each record they free, for the sake of what
// happens when they are overloaded.
constexpr timespec kNap{0, 200'000};

// The table's counts are u16.
constexpr std::size_t kMaxNameBytes = 0xFFFF;
constexpr std::size_t kMaxOutputs = 0xFFFF;

ElementRange range_of(const NamedTensor &output, const OutputRows &rows) noexcept {
  return rows.rows ? row_range(output.tensor, rows.first_row, *rows.rows)
                   : whole_range(output.tensor);
}

// The header of a reply to `request`. What it waited ends where its run begins.
RecordHeader reply_fields(const RecordHeader &request, const RunNotes &run) noexcept {
  const bool ran = run.began_ns != 0;
  return {.signature = request.signature,
          .kind = RecordKind::kReply,
          .batch = run.requests,
          .batch_rows = run.rows,
          .request_id = request.request_id,
          .ticket = request.ticket,
          .rows = 0,
          .time_a_ns = ran ? run.ended_ns - run.began_ns : 0,
          .time_b_ns =
              ran && run.began_ns > request.time_b_ns ? run.began_ns - request.time_b_ns : 0};
}

// At most `size` bytes of it, and no half of a UTF-8 sequence at the end.
std::string_view cut(std::string_view text, std::size_t size) noexcept {
  if (text.size() <= size)
    return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80)
    --size;
  return text.substr(0, size);
}

void copy_outputs(std::byte *data, const OutputRows &rows,
                  std::span<const TableEntry> entries) noexcept {
  for (std::size_t i = 0; i < entries.size(); ++i)
    copy_range(range_of(rows.outputs[i], rows), data + entries[i].offset);
}

} // namespace

void WorkerPort::ring() const noexcept {
  Doorbell(end_.reply_bell.get(), end_.replies.header().asleep).ring();
}

// False: the front end has gone.
bool WorkerPort::nap() {
  ring(); // it must be awake to make room
  pollfd peer{end_.files.fd(), 0, 0};
  return ::ppoll(&peer, 1, &kNap, nullptr) <= 0 ||
         (peer.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

std::byte *WorkerPort::reserve_reply(std::uint64_t bytes) {
  for (;;) {
    if (std::byte *at = writer_.reserve(bytes))
      return at;
    if (!nap())
      return nullptr;
  }
}

bool WorkerPort::send_file(int file, std::uint64_t ticket) {
  while (!end_.files.send(file, ticket))
    if (!nap())
      return false;
  return true;
}

// Fills entries_ and returns the bytes of data.
std::uint64_t WorkerPort::lay_out(const OutputRows &rows, std::size_t signature) {
  const auto &declared = signatures_->all()[signature].outputs();
  entries_.resize(rows.outputs.size());
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const NamedTensor &output = rows.outputs[i];
    TableEntry &entry = entries_[i];
    const auto found = std::lower_bound(
        declared.begin(), declared.end(), output.name,
        [](const auto &named, std::string_view name) { return named.first < name; });
    const bool known = found != declared.end() && found->first == output.name;
    entry.index = known ? static_cast<std::uint32_t>(found - declared.begin()) : kUndeclared;
    entry.name = known ? std::string_view() : cut(output.name, kMaxNameBytes);
    entry.dtype = output.tensor.dtype;
    entry.shape = output.tensor.shape;
    if (rows.rows)
      entry.shape.set(0, *rows.rows);
    entry.offset = align_up(end, kTensorAlignment);
    entry.bytes = range_bytes(range_of(output, rows));
    end = entry.offset + entry.bytes;
  }
  return end;
}

bool WorkerPort::send_reply(const TakenRequest &request, const OutputRows &rows,
                            const RunNotes &run) {
  const std::lock_guard lock(sending_);
  const RecordHeader fields = reply_fields(*request.record, run);
  const std::uint64_t data_bytes = lay_out(rows, request.record->signature);
  if (data_bytes > max_reply_bytes_)
    return refuse_large(fields, rows, data_bytes);
  const std::uint64_t limit = end_.replies.capacity() / kInlineFraction;
  if (entries_.size() > kMaxOutputs || table_bytes(entries_) + kRecordDataOffset > limit)
    return send_error_locked(fields, {"resource_exhausted", "", "too many outputs for a reply"});
  if (data_bytes + table_bytes(entries_) + 2 * kRecordDataOffset <= limit)
    return send_inline(fields, rows, data_bytes);
  return send_by_reference(fields, rows, data_bytes);
}

bool WorkerPort::send_inline(const RecordHeader &fields, const OutputRows &rows,
                             std::uint64_t data_bytes) {
  std::byte *at = reserve_reply(
      align_up(kRecordDataOffset + align_up(data_bytes, 8) + table_bytes(entries_), kCacheLine));
  if (at == nullptr)
    return false;
  copy_outputs(at + kRecordDataOffset, rows, entries_);
  writer_.commit(finish_record(at, fields, data_bytes, entries_));
  return true;
}

bool WorkerPort::send_by_reference(const RecordHeader &fields, const OutputRows &rows,
                                   std::uint64_t data_bytes) {
  UniqueFd file;
  try {
    file = create_memory_file("headrace-reply", data_bytes);
    copy_outputs(map_shared(file.get(), data_bytes).data(), rows, entries_);
    seal(file.get(), true);
  } catch (const std::system_error &failure) {
    return send_error_locked(fields, {"resource_exhausted", "", failure.what()});
  }
  std::byte *at = reserve_reply(align_up(kRecordDataOffset + table_bytes(entries_), kCacheLine));
  if (at == nullptr || !send_file(file.get(), fields.ticket))
    return false;
  const std::uint32_t length = finish_record(at, fields, 0, entries_);
  reinterpret_cast<RecordHeader *>(at)->flags = kFlagByReference;
  writer_.commit(length);
  return true;
}

bool WorkerPort::refuse_large(const RecordHeader &fields, const OutputRows &rows,
                              std::uint64_t data_bytes) {
  const auto largest =
      std::max_element(entries_.begin(), entries_.end(),
                       [](const auto &a, const auto &b) { return a.bytes < b.bytes; });
  const NamedTensor &output = rows.outputs[static_cast<std::size_t>(largest - entries_.begin())];
  const std::string message = "output '" + std::string(output.name) + "' takes " +
                              std::to_string(largest->bytes) + " of the reply's " +
                              std::to_string(data_bytes) + " bytes; the limit is " +
                              std::to_string(max_reply_bytes_) + " (max_reply_bytes)";
  return send_error_locked(fields, {"resource_exhausted", "", message});
}

bool WorkerPort::send_error(const RecordHeader &request, const ErrorText &text,
                            const RunNotes &run) {
  const std::lock_guard lock(sending_);
  return send_error_locked(reply_fields(request, run), text);
}

bool WorkerPort::send_error_locked(const RecordHeader &fields, ErrorText text) {
  const std::size_t limit = end_.replies.capacity() / kInlineFraction - 2 * kRecordDataOffset;
  text.code = cut(text.code, limit / 8);
  text.path = cut(text.path, limit / 4);
  text.message = cut(text.message, limit / 2);
  std::byte *at = reserve_reply(error_record_bytes(text));
  if (at == nullptr)
    return false;
  writer_.commit(write_error_record(at, fields, text));
  return true;
}

} // namespace headrace
