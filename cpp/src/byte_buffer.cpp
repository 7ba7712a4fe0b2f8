#include "headrace/byte_buffer.hpp"

#include <algorithm>
#include <limits>

namespace headrace {

namespace {

constexpr std::size_t kSmallest = 256;

} // namespace

void ByteBuffer::grow(std::size_t extra) {
  if (extra > std::numeric_limits<std::size_t>::max() / 2 - size_)
    throw std::bad_alloc();
  const std::size_t wanted = std::max({size_ + extra, capacity_ + capacity_ / 2, kSmallest});
  void *moved = std::realloc(data_.get(), wanted);
  if (moved == nullptr)
    throw std::bad_alloc();
  static_cast<void>(data_.release()); // realloc has freed it
  data_.reset(static_cast<char *>(moved));
  capacity_ = wanted;
}

} // namespace headrace
