// Where the decoder writes requests on their way to a worker: in a ring record, or in a memfd that
// follows by reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "headrace/memory_file.hpp"
#include "headrace/record.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// Writes tensors one after another into a given region, each on kTensorAlignment.
///
/// One tensor at a time grows in place: the only one of a columnar body or of a single input.
/// Inputs of row objects grow in turn; the first of them grows in place, the others in scratch
/// memory, from which they are copied when the one in place is finished. Reusable: scratch and
/// table keep their memory. Single-owner.
class RecordSink final : public TensorSink {
public:
  /// Starts anew on a region, which starts on kTensorAlignment.
  void reset(std::span<std::byte> region);

  std::span<std::byte> grow(std::size_t index, std::size_t used, std::size_t need) override;
  void finish(std::size_t index, DType dtype, const Shape &shape, std::uint64_t bytes) override;

  /// False: not all of it fitted, and what is there is of no use.
  bool complete() const noexcept { return !overflowed_; }
  /// Bytes from the region's start to the end of the last tensor.
  std::uint64_t data_bytes() const noexcept { return end_; }
  /// What was finished, by index.
  std::span<const TableEntry> entries();

private:
  enum class Place : std::uint8_t { kNone, kRegion, kScratch };
  struct Growing {
    Place place = Place::kNone;
    bool waits = false; // finished in scratch while another tensor grows in place
    std::size_t entry = 0;
    AlignedBuffer scratch;
  };

  Growing &tensor(std::size_t index);
  std::span<std::byte> grow_scratch(Growing &tensor, std::size_t used, std::size_t need);
  void append(Growing &tensor);

  std::span<std::byte> region_;
  std::uint64_t end_ = 0; // of the finished tensors
  bool occupied_ = false; // a tensor grows behind end_
  bool overflowed_ = false;
  std::vector<Growing> tensors_; // by index
  std::vector<TableEntry> entries_;
};

/// Writes tensors into a sparse memfd of its own: tensors that grow at the same time get address
/// space far enough apart, and pages take memory only where something is written. Single-owner.
class MemoryFileSink final : public TensorSink {
public:
  /// `bound`: what the decoder will ask for in all (decoded_bytes_bound); `max_bytes`: what is
  /// granted in all. Throws std::system_error.
  MemoryFileSink(std::size_t inputs, std::uint64_t bound, std::uint64_t max_bytes);

  std::span<std::byte> grow(std::size_t index, std::size_t used, std::size_t need) override;
  void finish(std::size_t index, DType dtype, const Shape &shape, std::uint64_t bytes) override;

  std::span<const TableEntry> entries();
  /// Bytes of tensors, without the holes between them.
  std::uint64_t data_bytes() const noexcept { return data_bytes_; }
  /// Whether `data_bytes()` keeps to the limit.
  bool complete() const noexcept { return data_bytes_ <= max_bytes_; }
  /// The file, cut to size and sealed with its contents; the sink is spent. Throws
  /// std::system_error.
  UniqueFd take_file();

private:
  struct Growing {
    bool open = false;
    std::uint64_t begin = 0;
  };

  std::uint64_t place_next() const noexcept;

  std::uint64_t stride_; // address space of one tensor
  std::uint64_t max_bytes_;
  std::uint64_t data_bytes_ = 0; // of the finished tensors
  std::uint64_t end_ = 0;        // likewise, holes included
  UniqueFd fd_;
  Mapping mapping_;
  std::vector<Growing> tensors_;
  std::vector<TableEntry> entries_;
};

} // namespace headrace
