#include "headrace/channel.hpp"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "headrace/doorbell.hpp"

namespace headrace {

namespace {

constexpr std::size_t kWorkerFds = 5;

// Keeps message boundaries, so a file and its ticket cannot come apart, and reports the end of the
// peer.
std::array<UniqueFd, 2> create_socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
    throw_errno("socketpair");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// One message: a ticket and one file. The control buffer is aligned as its header must be.
struct FileMessage {
  std::uint64_t ticket = 0;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&ticket, sizeof ticket};
  msghdr header{};

  FileMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  FileMessage(const FileMessage &) = delete;
  FileMessage &operator=(const FileMessage &) = delete;
};

UniqueFd file_of(FileMessage &message) {
  const cmsghdr *part = CMSG_FIRSTHDR(&message.header);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS ||
      part->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
  return UniqueFd(fd);
}

std::span<const int> require_worker_fds(std::span<const int> fds) {
  if (fds.size() != kWorkerFds)
    throw std::invalid_argument(std::to_string(fds.size()) + " file descriptors; a channel has " +
                                std::to_string(kWorkerFds));
  return fds;
}

} // namespace

bool FilePassage::send(int file, std::uint64_t ticket) const noexcept {
  FileMessage message;
  message.ticket = ticket;
  cmsghdr *part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &file, sizeof file);
  return ::sendmsg(socket_.get(), &message.header, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof message.ticket);
}

UniqueFd FilePassage::receive(std::uint64_t ticket) const {
  for (;;) {
    FileMessage message;
    const ssize_t got = ::recvmsg(socket_.get(), &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A peer that died with files unread on its side is reported first, once; what it had sent is
    // still there.
    if (got < 0 && (errno == EINTR || errno == ECONNRESET))
      continue;
    if (got != static_cast<ssize_t>(sizeof message.ticket))
      throw BrokenPeer("a record by reference without its file");
    UniqueFd file = file_of(message);
    if (message.ticket == ticket && file)
      return file;
  }
}

bool FilePassage::peer_gone() const noexcept {
  pollfd waiting{socket_.get(), 0, 0};
  return ::poll(&waiting, 1, 0) > 0 && (waiting.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

void FilePassage::shut_down() noexcept {
  if (socket_)
    ::shutdown(socket_.get(), SHUT_RDWR);
  socket_.reset();
}

Channel::Channel(std::uint64_t request_bytes, std::uint64_t reply_bytes, std::uint64_t generation)
    : Channel(request_bytes, reply_bytes, generation, create_socket_pair()) {}

Channel::Channel(std::uint64_t request_bytes, std::uint64_t reply_bytes, std::uint64_t generation,
                 std::array<UniqueFd, 2> sockets)
    : requests_(Ring::create(request_bytes, generation)),
      replies_(Ring::create(reply_bytes, generation)), request_bell_(create_eventfd()),
      reply_bell_(create_eventfd()), files_(std::move(sockets[0])),
      worker_socket_(std::move(sockets[1])) {}

std::vector<int> Channel::worker_fds() const {
  if (!worker_socket_)
    return {};
  return {requests_.fd(), replies_.fd(), request_bell_.get(), reply_bell_.get(),
          worker_socket_.get()};
}

void Channel::close_worker_fds() noexcept { worker_socket_.reset(); }

void Channel::close() noexcept {
  open_ = false;
  close_worker_fds();
  files_.shut_down();
  request_bell_.reset();
  reply_bell_.reset();
  requests_.close_fd();
  replies_.close_fd();
}

WorkerEnd::WorkerEnd(std::span<const int> fds)
    : requests(Ring::attach(UniqueFd::duplicate(require_worker_fds(fds)[0]))),
      replies(Ring::attach(UniqueFd::duplicate(fds[1]))), request_bell(UniqueFd::duplicate(fds[2])),
      reply_bell(UniqueFd::duplicate(fds[3])), files(UniqueFd::duplicate(fds[4])) {
  requests.close_fd(); // the mappings are enough
  replies.close_fd();
}

void exit_when_closed(int fd, int status) {
  std::thread([held = UniqueFd::duplicate(fd), status] {
    // No events asked for: POLLHUP and POLLERR are reported anyway, data is not.
    pollfd waiting{held.get(), 0, 0};
    while (::poll(&waiting, 1, -1) < 0 && errno == EINTR) {
    }
    ::_exit(status);
  }).detach();
}

} // namespace headrace
