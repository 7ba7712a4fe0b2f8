#include "headrace/memory_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "headrace/tensor.hpp"

namespace headrace {

namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int seals_for(bool contents) noexcept { return contents ? kSizeSeals | F_SEAL_WRITE : kSizeSeals; }

std::byte *map(void *at, std::size_t size, int protection, int flags, int fd,
               std::uint64_t offset) {
  void *p = ::mmap(at, size, protection, flags, fd, static_cast<off_t>(offset));
  if (p == MAP_FAILED) // NOLINT(performance-no-int-to-ptr)
    throw_errno("mmap");
  return static_cast<std::byte *>(p);
}

} // namespace

void throw_errno(const char *what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void UniqueFd::reset() noexcept {
  if (fd_ >= 0)
    ::close(std::exchange(fd_, -1));
}

UniqueFd UniqueFd::duplicate(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy)
    throw_errno("duplicating a file descriptor");
  return copy;
}

void Mapping::reset() noexcept {
  if (data_ != nullptr)
    ::munmap(std::exchange(data_, nullptr), std::exchange(size_, 0));
}

AlignedBuffer::AlignedBuffer(std::size_t size) : size_(size) {
  const std::size_t rounded = (size + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  if (rounded < size)
    throw std::bad_alloc();
  data_.reset(static_cast<std::byte *>(
      std::aligned_alloc(kTensorAlignment, rounded == 0 ? kTensorAlignment : rounded)));
  if (!data_)
    throw std::bad_alloc();
}

void AlignedBuffer::Free::operator()(std::byte *p) const noexcept { std::free(p); }

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

UniqueFd create_memory_file(const char *name, std::uint64_t size) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd)
    throw_errno("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    throw_errno("ftruncate of a memfd");
  return fd;
}

void seal(int fd, bool contents) {
  if (::fcntl(fd, F_ADD_SEALS, seals_for(contents)) != 0)
    throw_errno("sealing a memfd");
}

std::uint64_t sealed_size(int fd, bool contents) {
  const int wanted = seals_for(contents);
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & wanted) != wanted)
    throw BrokenPeer("shared memory that is not sealed");
  struct stat status{};
  if (::fstat(fd, &status) != 0 || status.st_size < 0)
    throw BrokenPeer("shared memory without a size");
  return static_cast<std::uint64_t>(status.st_size);
}

Mapping map_shared(int fd, std::uint64_t size) {
  return {map(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0), size};
}

Mapping map_private(int fd, std::uint64_t size) {
  return {map(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0), size};
}

Mapping map_twice(int fd, std::uint64_t capacity) {
  const std::size_t header = page_size();
  const std::size_t total = header + 2 * capacity;
  // Addresses first, then the file over them: nothing else can slip in between the two copies.
  Mapping whole(map(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                total);
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  map(whole.data(), header + capacity, kProtection, MAP_SHARED | MAP_FIXED, fd, 0);
  map(whole.data() + header + capacity, capacity, kProtection, MAP_SHARED | MAP_FIXED, fd, header);
  return whole;
}

} // namespace headrace
