// The ring: bytes from one producer to one consumer through shared memory, without a lock.
//
// A memfd holds a header page and `capacity` bytes of data. Each side maps the data twice in a row,
// so that a record which begins near the end goes on in the second copy and never wraps:
//
//      page 0           data                       the same data again
//     ┌──────────┬──────────────────────────┬──────────────────────────┐
//     │ header   │ ··│rec 3│  free  │rec 1│r│ec 2│rec 3│  free  │rec 1│r│
//     └──────────┴──────────────────────────┴──────────────────────────┘
//                      head ┘        └ tail
//
// Positions are u64 byte counts since the ring was made: they only grow, never wrap, and `position
// % capacity` is the place. Records start on multiples of 64. The bytes in [tail, head) are
// published, [head, tail + capacity) is free.
//
// The header page, one cache line for each writer of a line so that the sides do not take lines
// from each other:
//
//       0  magic u64 │ layout version u32 │ page bytes u32 │ capacity u64 │ generation u64 constant
//      64  head u64                     written by the producer: all before it is published
//     128  tail u64                     written by whoever frees: all before it may be overwritten
//     192  read u64                     written by the consumer: all before it will not be looked
//     at again 256  asleep u32                   1: the consumer sleeps and wants its doorbell rung
//     (doorbell.hpp) 320  running_since_ns u64         written by the consumer: a note to the
//     producer (front_port.hpp)
//
// Two ways to free. A reply ring's consumer frees what it has taken (`RingReader::free_to`). In a
// request ring the *producer* frees (`RingWriter::free_to`), when a request's reply has been taken:
// until then the record is the copy that is pushed again should the consumer die; the consumer only
// says by `read` what it has passed.
//
// `head` is stored after the data, by the only producer. So a producer killed at any instant leaves
// a shorter ring, never a hole. Full is a result, never a wait; waiting is doorbell.hpp's business.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/memory_file.hpp"

namespace headrace {

/// Where two threads' data must not share a line. Not std::hardware_destructive_interference_size,
/// whose value may differ between the compilers of two processes.
inline constexpr std::size_t kCacheLine = 64;

inline constexpr std::uint64_t kRingMagic = 0x676e69527248; // "HrRing"
/// Both sides are the same build in practice; a difference is refused, never adapted to.
inline constexpr std::uint32_t kRingLayoutVersion = 1;
/// Record lengths are u32.
inline constexpr std::uint64_t kMaxRingCapacity = std::uint64_t{1} << 30;

struct RingHeader {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t page_bytes;
  std::uint64_t capacity;   ///< bytes of data, a power of two
  std::uint64_t generation; ///< which of the successive rings between two sides this is

  alignas(kCacheLine) std::atomic<std::uint64_t> head;
  alignas(kCacheLine) std::atomic<std::uint64_t> tail;
  alignas(kCacheLine) std::atomic<std::uint64_t> read;
  alignas(kCacheLine) std::atomic<std::uint32_t> asleep;
  alignas(kCacheLine) std::atomic<std::uint64_t> running_since_ns;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "an atomic with a lock of its own does not work across processes");
static_assert(offsetof(RingHeader, head) == 64 && offsetof(RingHeader, tail) == 128 &&
                  offsetof(RingHeader, read) == 192 && offsetof(RingHeader, asleep) == 256 &&
                  offsetof(RingHeader, running_since_ns) == 320,
              "the drawing above is the agreement between the processes");
static_assert(sizeof(RingHeader) <= 4096, "the header fits the smallest page");

constexpr std::uint64_t align_up(std::uint64_t n, std::uint64_t alignment) noexcept {
  return (n + alignment - 1) / alignment * alignment;
}

/// The memory of a ring, mapped into this process. Both sides have one. Movable, not copyable.
class Ring {
public:
  /// A new ring of at least `capacity` bytes (rounded up to a power of two and a page). Throws
  /// std::invalid_argument beyond kMaxRingCapacity, std::system_error where the memory cannot be
  /// had.
  static Ring create(std::uint64_t capacity, std::uint64_t generation);
  /// The ring that another process made. Throws BrokenPeer where `fd` is none of this layout.
  static Ring attach(UniqueFd fd);

  RingHeader &header() const noexcept { return *reinterpret_cast<RingHeader *>(mapping_.data()); }
  std::uint64_t capacity() const noexcept { return capacity_; }
  std::uint64_t generation() const noexcept { return header().generation; }
  /// The bytes at a position; the `capacity` bytes from there are contiguous.
  std::byte *at(std::uint64_t position) const noexcept {
    return data_ + (position & (capacity_ - 1));
  }
  int fd() const noexcept { return fd_.get(); }
  /// The memory stays mapped; only the descriptor goes.
  void close_fd() noexcept { fd_.reset(); }

private:
  Ring(UniqueFd fd, std::uint64_t capacity);

  UniqueFd fd_;
  Mapping mapping_;
  std::byte *data_;
  std::uint64_t capacity_;
};

/// The producing side. Single-owner. The ring outlives it.
class RingWriter {
public:
  explicit RingWriter(const Ring &ring) noexcept : ring_(&ring) {}

  /// Room for a record of up to `max_bytes`, on a multiple of 64; null: full, and nothing happened.
  /// The room stays the caller's until `commit` or the next `reserve`.
  std::byte *reserve(std::uint64_t max_bytes) noexcept;
  /// Publishes the first `bytes` of the room reserved last, rounded up to 64.
  void commit(std::uint64_t bytes) noexcept;
  /// Where the record reserved next (or last, before its commit) stands.
  std::uint64_t position() const noexcept { return head_; }
  /// All before `position` may be overwritten; for a ring whose producer frees.
  void free_to(std::uint64_t position) noexcept;
  /// All before it the consumer will not look at again; for a ring whose producer frees.
  std::uint64_t passed() const noexcept {
    // Pairs with the release store in RingReader::pass_to: the consumer's last look at those
    // records happened before.
    return ring_->header().read.load(std::memory_order_acquire);
  }
  /// Bytes published and not yet freed, as far as this side knows.
  std::uint64_t used() const noexcept { return head_ - tail_; }

private:
  const Ring *ring_;
  std::uint64_t head_ = 0; // ours: the shared one is a copy of it
  std::uint64_t tail_ = 0; // the shared one as last seen; the real one is never behind it
};

/// The consuming side. Single-owner. The ring outlives it.
class RingReader {
public:
  explicit RingReader(const Ring &ring) noexcept : ring_(&ring) {}

  /// The published bytes that were not yet skipped, contiguous; empty: none. Throws BrokenPeer
  /// where the producer's position cannot be.
  std::span<std::byte> peek();
  /// The first `bytes` of `peek()` have been seen. Precondition: a multiple of 64, not beyond.
  void skip(std::uint64_t bytes) noexcept { cursor_ += bytes; }
  /// Where `peek()` begins.
  std::uint64_t position() const noexcept { return cursor_; }
  /// Whether more was published; looks at the shared memory. Safe after the consumer said that it
  /// sleeps.
  bool has_more() const noexcept {
    // Pairs with the release store in RingWriter::commit, as in peek().
    return ring_->header().head.load(std::memory_order_acquire) != cursor_;
  }
  /// All before `position` may be overwritten; for a ring whose consumer frees. Touches the shared
  /// memory alone.
  void free_to(std::uint64_t position) const noexcept;
  /// All before `position` will not be looked at again, unless it is part of a batch that has yet
  /// to be answered.
  void pass_to(std::uint64_t position) const noexcept;

private:
  const Ring *ring_;
  std::uint64_t cursor_ = 0;
  std::uint64_t head_ = 0; // the shared one as last seen
};

} // namespace headrace
