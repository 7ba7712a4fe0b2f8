// A growing run of bytes for text that is written once, front to back.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>

namespace headrace {

/// Grows geometrically and never initialises what it grows by; `std::string` would zero it first,
/// which costs as much as writing numbers into it. Movable, not copyable. Single-owner.
///
/// Writers ask for room once for many small writes, then say how far they came:
///
///     char *out = buffer.reserve(kMaxNumberChars);
///     buffer.commit_to(format_float32(value, out));
class ByteBuffer {
public:
  ByteBuffer() = default;
  explicit ByteBuffer(std::size_t capacity) { reserve(capacity); }
  ByteBuffer(const ByteBuffer &) = delete;
  ByteBuffer &operator=(const ByteBuffer &) = delete;
  ByteBuffer(ByteBuffer &&other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ByteBuffer &operator=(ByteBuffer &&other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  ~ByteBuffer() = default;

  const char *data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }
  std::string_view view() const noexcept { return {data_.get(), size_}; }
  std::span<const std::byte> bytes() const noexcept {
    return {reinterpret_cast<const std::byte *>(data_.get()), size_};
  }

  /// Room for `extra` more bytes, uninitialised: a pointer to the first of them, valid until the
  /// next call of a non-const member. Throws std::bad_alloc; the contents stay.
  char *reserve(std::size_t extra) {
    if (extra > capacity_ - size_)
      grow(extra);
    return data_.get() + size_;
  }
  /// The first `count` bytes of the room reserved last now belong to the contents.
  void commit(std::size_t count) noexcept { size_ += count; }
  /// As `commit`, by the end of what was written.
  void commit_to(const char *end) noexcept { size_ = static_cast<std::size_t>(end - data_.get()); }

  void append(std::string_view text) {
    if (text.empty()) // whose data() may be null, which memcpy must not see
      return;
    std::memcpy(reserve(text.size()), text.data(), text.size());
    commit(text.size());
  }
  void append(char c) {
    *reserve(1) = c;
    commit(1);
  }
  /// Forgets what lies beyond the first `size` bytes. Precondition: size <= size().
  void truncate(std::size_t size) noexcept { size_ = size; }
  /// Forgets the contents and keeps the memory.
  void clear() noexcept { size_ = 0; }

private:
  struct Free {
    void operator()(char *p) const noexcept { std::free(p); }
  };

  void grow(std::size_t extra);

  std::unique_ptr<char[], Free>
      data_; // of malloc, since realloc moves large blocks without copying them
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

} // namespace headrace
