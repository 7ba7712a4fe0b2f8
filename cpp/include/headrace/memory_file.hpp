// Memory that processes share: file descriptors with an owner, memfds, and mappings of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

namespace headrace {

/// The process at the other end broke the agreement: a layout, a size or a record that cannot be.
/// Nothing that comes from it afterwards can be trusted; the channel is over.
class BrokenPeer : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Throws std::system_error for the current `errno`.
[[noreturn]] void throw_errno(const char *what);

/// A file descriptor, closed when it goes. Movable, not copyable.
class UniqueFd {
public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd &operator=(UniqueFd &&other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  UniqueFd(const UniqueFd &) = delete;
  UniqueFd &operator=(const UniqueFd &) = delete;
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept;
  /// A second descriptor of the same file, closed on exec. Throws std::system_error.
  static UniqueFd duplicate(int fd);

private:
  int fd_ = -1;
};

/// Pages of memory, unmapped when they go. Movable, not copyable.
class Mapping {
public:
  Mapping() = default;
  Mapping(std::byte *data, std::size_t size) noexcept : data_(data), size_(size) {}
  Mapping(Mapping &&other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping &operator=(Mapping &&other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  ~Mapping() { reset(); }

  std::byte *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::span<std::byte> bytes() const noexcept { return {data_, size_}; }
  void reset() noexcept;

private:
  std::byte *data_ = nullptr;
  std::size_t size_ = 0;
};

/// Heap memory on kTensorAlignment, uninitialised. Movable, not copyable.
class AlignedBuffer {
public:
  AlignedBuffer() = default;
  /// Throws std::bad_alloc.
  explicit AlignedBuffer(std::size_t size);

  std::byte *data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }

private:
  struct Free {
    void operator()(std::byte *p) const noexcept;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

/// Bytes of a page of memory.
std::size_t page_size() noexcept;

/// An anonymous file of `size` zero bytes that can be sealed, closed on exec. Its pages take no
/// memory until they are written. Throws std::system_error.
UniqueFd create_memory_file(const char *name, std::uint64_t size);

/// The file can never change its size again, and with `contents` neither its bytes: whoever maps it
/// needs not fear SIGBUS, nor that what was checked changes. No writable mapping may exist for
/// `contents`. Throws std::system_error.
void seal(int fd, bool contents);

/// The size of a file that carries at least the seals of `seal(fd, contents)`; throws BrokenPeer
/// otherwise.
std::uint64_t sealed_size(int fd, bool contents);

/// All of the file, shared and writable. Throws std::system_error.
Mapping map_shared(int fd, std::uint64_t size);

/// All of the file, writable without any effect on the file (copy on write). Throws
/// std::system_error.
Mapping map_private(int fd, std::uint64_t size);

/// One page of header, then the `capacity` bytes behind it twice in a row. Throws
/// std::system_error.
Mapping map_twice(int fd, std::uint64_t capacity);

} // namespace headrace
