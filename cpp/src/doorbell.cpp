#include "headrace/doorbell.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include "headrace/memory_file.hpp"

namespace headrace {

int create_eventfd() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0)
    throw_errno("eventfd");
  return fd;
}

// Neither result matters: a write fails only where 2^64 - 2 rings wait already (or the channel is
// closed), a read only where nothing was rung.
void Doorbell::ring_anyway() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
}

void Doorbell::clear() const noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(fd_, &count, sizeof count);
}

} // namespace headrace
