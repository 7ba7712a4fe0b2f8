// What one front end and one worker share: two rings, a doorbell for each, and a socket pair.
//
// The socket pair carries memfds of records whose data does not fit a ring (SCM_RIGHTS), each with
// the ticket of its record; it is sent before the record is published, so whoever sees the record
// finds the file waiting. And its end of file is how either side learns that the other has gone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headrace/memory_file.hpp"
#include "headrace/ring.hpp"

namespace headrace {

/// One side's end of the socket pair. Non-blocking. Single-owner on either end.
class FilePassage {
public:
  explicit FilePassage(UniqueFd socket) noexcept : socket_(std::move(socket)) {}

  /// False: no room now (or the peer has gone); nothing was sent.
  bool send(int file, std::uint64_t ticket) const noexcept;
  /// The file that came with `ticket`, forgetting those of tickets that nobody asked for. Throws
  /// BrokenPeer where there is none.
  UniqueFd receive(std::uint64_t ticket) const;
  bool peer_gone() const noexcept;
  /// Tells the other side that this one has gone, whoever else holds the descriptor.
  void shut_down() noexcept;
  int fd() const noexcept { return socket_.get(); }

private:
  UniqueFd socket_;
};

/// Made by the front end. The worker's descriptors are its own to hand over; it keeps them until
/// closed.
class Channel {
public:
  /// Capacities are rounded up to powers of two. Throws std::invalid_argument, std::system_error.
  Channel(std::uint64_t request_bytes, std::uint64_t reply_bytes, std::uint64_t generation);
  Channel(const Channel &) = delete;
  Channel &operator=(const Channel &) = delete;
  ~Channel() = default;

  /// For WorkerEnd: request ring, reply ring, request bell, reply bell, socket. Empty once they
  /// were closed.
  std::vector<int> worker_fds() const;
  /// The worker has copies of its descriptors.
  void close_worker_fds() noexcept;
  /// Everything; the worker sees that this side has gone. The rings' memory stays readable.
  void close() noexcept;
  bool is_open() const noexcept { return open_; }

  Ring &requests() noexcept { return requests_; }
  Ring &replies() noexcept { return replies_; }
  int request_bell() const noexcept { return request_bell_.get(); }
  int reply_bell() const noexcept { return reply_bell_.get(); }
  FilePassage &files() noexcept { return files_; }

private:
  Channel(std::uint64_t request_bytes, std::uint64_t reply_bytes, std::uint64_t generation,
          std::array<UniqueFd, 2> sockets);

  Ring requests_;
  Ring replies_;
  UniqueFd request_bell_;
  UniqueFd reply_bell_;
  FilePassage files_;
  UniqueFd worker_socket_;
  bool open_ = true;
};

/// The worker's end, from the descriptors of Channel::worker_fds (which it duplicates).
class WorkerEnd {
public:
  /// Throws std::invalid_argument for a wrong number of descriptors, BrokenPeer for what they are,
  /// std::system_error.
  explicit WorkerEnd(std::span<const int> fds);

  Ring requests;
  Ring replies;
  UniqueFd request_bell;
  UniqueFd reply_bell;
  FilePassage files;
};

/// Starts a thread that ends this process, with exit status `status` and without any clean-up, as
/// soon as the peer of `fd` (a socket or the reading end of a pipe) has closed it. It needs no lock
/// of Python's, so it works while a model holds the GIL. `fd` is duplicated.
void exit_when_closed(int fd, int status);

} // namespace headrace
