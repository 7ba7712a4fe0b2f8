#include "headrace/record_sink.hpp"

#include <algorithm>
#include <cstring>
#include <unistd.h>

namespace headrace {

namespace {

// Decoders finish tensors in the order of the body, tables are read in the order of the signature.
void sort_by_index(std::vector<TableEntry> &entries) {
  const auto by_index = [](const TableEntry &a, const TableEntry &b) { return a.index < b.index; };
  if (!std::is_sorted(entries.begin(), entries.end(), by_index))
    std::sort(entries.begin(), entries.end(), by_index);
}

void add_entry(std::vector<TableEntry> &entries, std::size_t index, DType dtype, const Shape &shape,
               std::uint64_t offset, std::uint64_t bytes) {
  TableEntry &entry = entries.emplace_back();
  entry.index = static_cast<std::uint32_t>(index);
  entry.dtype = dtype;
  entry.shape = shape;
  entry.offset = offset;
  entry.bytes = bytes;
}

} // namespace

void RecordSink::reset(std::span<std::byte> region) {
  region_ = region;
  end_ = 0;
  occupied_ = false;
  overflowed_ = false;
  for (Growing &tensor : tensors_) {
    tensor.place = Place::kNone;
    tensor.waits = false;
  }
  entries_.clear();
}

RecordSink::Growing &RecordSink::tensor(std::size_t index) {
  if (index >= tensors_.size())
    tensors_.resize(index + 1);
  return tensors_[index];
}

std::span<std::byte> RecordSink::grow(std::size_t index, std::size_t used, std::size_t need) {
  Growing &t = tensor(index);
  if (t.place == Place::kNone) {
    t.place = occupied_ ? Place::kScratch : Place::kRegion;
    occupied_ = true;
  }
  if (t.place == Place::kScratch)
    return grow_scratch(t, used, need);
  const std::uint64_t begin = align_up(end_, kTensorAlignment);
  if (begin > region_.size() || need > region_.size() - begin)
    return {};
  return region_.subspan(begin); // what was written before is there already
}

std::span<std::byte> RecordSink::grow_scratch(Growing &t, std::size_t used, std::size_t need) {
  if (need > region_.size())
    return {};
  if (need > t.scratch.size()) {
    AlignedBuffer larger(std::min(std::max(need, 2 * t.scratch.size()), region_.size()));
    if (used != 0)
      std::memcpy(larger.data(), t.scratch.data(), used);
    t.scratch = std::move(larger);
  }
  return {t.scratch.data(), t.scratch.size()};
}

void RecordSink::finish(std::size_t index, DType dtype, const Shape &shape, std::uint64_t bytes) {
  Growing &t = tensor(index);
  t.entry = entries_.size();
  add_entry(entries_, index, dtype, shape, 0, bytes); // never grown: empty, and any offset is right
  if (t.place == Place::kScratch && occupied_) {
    t.waits = true;
  } else if (t.place == Place::kScratch) {
    append(t);
  } else if (t.place == Place::kRegion) {
    entries_[t.entry].offset = align_up(end_, kTensorAlignment);
    end_ = entries_[t.entry].offset + bytes;
    occupied_ = false;
    for (Growing &other : tensors_)
      if (other.waits)
        append(other);
  }
}

void RecordSink::append(Growing &t) {
  t.waits = false;
  TableEntry &entry = entries_[t.entry];
  entry.offset = align_up(end_, kTensorAlignment);
  if (entry.offset > region_.size() || entry.bytes > region_.size() - entry.offset) {
    overflowed_ = true;
    return;
  }
  std::memcpy(region_.data() + entry.offset, t.scratch.data(), entry.bytes);
  end_ = entry.offset + entry.bytes;
}

std::span<const TableEntry> RecordSink::entries() {
  sort_by_index(entries_);
  return entries_;
}

MemoryFileSink::MemoryFileSink(std::size_t inputs, std::uint64_t bound, std::uint64_t max_bytes)
    : stride_(align_up(std::min(bound, max_bytes) + kTensorAlignment, page_size())),
      max_bytes_(max_bytes), tensors_(std::max<std::size_t>(inputs, 1)) {
  const std::uint64_t size = stride_ * tensors_.size();
  fd_ = create_memory_file("headrace-payload", size);
  mapping_ = map_shared(fd_.get(), size);
}

std::uint64_t MemoryFileSink::place_next() const noexcept {
  std::uint64_t begin = end_;
  for (const Growing &t : tensors_)
    if (t.open)
      begin = std::max(begin, t.begin + stride_);
  return align_up(begin, kTensorAlignment);
}

std::span<std::byte> MemoryFileSink::grow(std::size_t index, std::size_t /*used*/,
                                          std::size_t need) {
  Growing &t = tensors_[index];
  if (!t.open) {
    t.begin = place_next();
    t.open = true;
  }
  // Several that grow at once may exceed the limit together: data_bytes() tells in the end.
  const std::uint64_t room =
      std::min(stride_ - kTensorAlignment, max_bytes_ - std::min(max_bytes_, data_bytes_));
  if (need > room)
    return {};
  return mapping_.bytes().subspan(t.begin, room);
}

void MemoryFileSink::finish(std::size_t index, DType dtype, const Shape &shape,
                            std::uint64_t bytes) {
  Growing &t = tensors_[index];
  add_entry(entries_, index, dtype, shape, t.begin, bytes); // never grown: empty, at 0
  t.open = false;
  end_ = std::max(end_, t.begin + bytes);
  data_bytes_ += bytes;
}

std::span<const TableEntry> MemoryFileSink::entries() {
  sort_by_index(entries_);
  return entries_;
}

UniqueFd MemoryFileSink::take_file() {
  mapping_.reset();
  if (::ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0)
    throw_errno("ftruncate of a payload");
  seal(fd_.get(), true);
  return std::move(fd_);
}

} // namespace headrace
