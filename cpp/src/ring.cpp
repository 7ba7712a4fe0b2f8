#include "headrace/ring.hpp"

#include <bit>
#include <new>
#include <stdexcept>

namespace headrace {

Ring::Ring(UniqueFd fd, std::uint64_t capacity)
    : fd_(std::move(fd)), mapping_(map_twice(fd_.get(), capacity)),
      data_(mapping_.data() + page_size()), capacity_(capacity) {}

Ring Ring::create(std::uint64_t capacity, std::uint64_t generation) {
  if (capacity > kMaxRingCapacity)
    throw std::invalid_argument("a ring of " + std::to_string(capacity) + " bytes; the limit is " +
                                std::to_string(kMaxRingCapacity));
  const std::uint64_t rounded = std::bit_ceil(std::max<std::uint64_t>(capacity, page_size()));
  UniqueFd fd = create_memory_file("headrace-ring", page_size() + rounded);
  seal(fd.get(), false);
  Ring ring(std::move(fd), rounded);
  auto *header = new (ring.mapping_.data()) RingHeader{}; // the atomics start at 0
  header->magic = kRingMagic;
  header->layout_version = kRingLayoutVersion;
  header->page_bytes = static_cast<std::uint32_t>(page_size());
  header->capacity = rounded;
  header->generation = generation;
  return ring;
}

Ring Ring::attach(UniqueFd fd) {
  const std::uint64_t size = sealed_size(fd.get(), false);
  const std::uint64_t capacity = size - page_size();
  if (size <= page_size() || capacity > kMaxRingCapacity || !std::has_single_bit(capacity) ||
      capacity % page_size() != 0)
    throw BrokenPeer("shared memory of " + std::to_string(size) + " bytes is no ring");
  Ring ring(std::move(fd), capacity);
  const RingHeader &header = ring.header();
  if (header.magic != kRingMagic || header.layout_version != kRingLayoutVersion ||
      header.page_bytes != page_size() || header.capacity != capacity)
    throw BrokenPeer("shared memory that is no ring of layout version " +
                     std::to_string(kRingLayoutVersion));
  return ring;
}

std::byte *RingWriter::reserve(std::uint64_t max_bytes) noexcept {
  if (max_bytes > ring_->capacity())
    return nullptr;
  // head_ is our own and tail only grows up to it, so head_ - tail_ can neither underflow nor be
  // too small: a stale tail_ errs towards full, and then the shared one is looked at.
  if (head_ - tail_ + max_bytes > ring_->capacity()) {
    // Pairs with the release store in RingReader::free_to: the consumer's reads of what it freed
    // happened before our writes over it.
    const std::uint64_t tail = ring_->header().tail.load(std::memory_order_acquire);
    if (tail < tail_ || tail > head_) // a broken consumer gets no say over our memory
      return nullptr;
    tail_ = tail;
    if (head_ - tail_ + max_bytes > ring_->capacity())
      return nullptr;
  }
  return ring_->at(head_);
}

void RingWriter::commit(std::uint64_t bytes) noexcept {
  head_ += align_up(bytes, kCacheLine);
  // Publishes the record's bytes. Pairs with the acquire loads in RingReader::peek and has_more.
  ring_->header().head.store(head_, std::memory_order_release);
}

void RingWriter::free_to(std::uint64_t position) noexcept {
  tail_ = position;
  // Publishes nothing: this side alone decides by it. The store is for those who look at the ring
  // from outside.
  ring_->header().tail.store(position, std::memory_order_relaxed);
}

std::span<std::byte> RingReader::peek() {
  if (cursor_ == head_) {
    // Pairs with the release store in RingWriter::commit: the records before it are whole.
    const std::uint64_t head = ring_->header().head.load(std::memory_order_acquire);
    if (head < cursor_ || head - cursor_ > ring_->capacity() || head % kCacheLine != 0)
      throw BrokenPeer("the ring's head is out of bounds");
    head_ = head;
  }
  return {ring_->at(cursor_), head_ - cursor_};
}

void RingReader::free_to(std::uint64_t position) const noexcept {
  // Publishes that we no longer read what lies before. Pairs with the acquire load in
  // RingWriter::reserve.
  ring_->header().tail.store(position, std::memory_order_release);
}

void RingReader::pass_to(std::uint64_t position) const noexcept {
  // Publishes that we no longer read what lies before. Pairs with the acquire load in
  // RingWriter::passed.
  ring_->header().read.store(position, std::memory_order_release);
}

} // namespace headrace
