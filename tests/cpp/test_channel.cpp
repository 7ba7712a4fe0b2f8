#include <boost/test/unit_test.hpp>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/channel.hpp"

using namespace headrace;

namespace {

UniqueFd file_with(std::uint64_t size) {
  UniqueFd file = create_memory_file("test", size);
  seal(file.get(), true);
  return file;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_worker_end_has_descriptors_of_its_own) {
  Channel channel(4096, 8192, 9);
  WorkerEnd worker(channel.worker_fds());
  channel.close_worker_fds();
  BOOST_TEST(channel.worker_fds().empty());
  BOOST_TEST(worker.requests.capacity() == 4096U);
  BOOST_TEST(worker.replies.capacity() == 8192U);
  BOOST_TEST(worker.requests.generation() == 9U);
  BOOST_TEST(!worker.files.peer_gone());
  channel.close();
  BOOST_TEST(worker.files.peer_gone());
}

BOOST_AUTO_TEST_CASE(either_end_sees_the_other_go) {
  Channel channel(4096, 4096, 0);
  {
    const WorkerEnd worker(channel.worker_fds());
    channel.close_worker_fds();
    BOOST_TEST(!channel.files().peer_gone());
  }
  BOOST_TEST(channel.files().peer_gone());
}

BOOST_AUTO_TEST_CASE(files_go_with_their_tickets) {
  Channel channel(4096, 4096, 0);
  const WorkerEnd worker(channel.worker_fds());
  for (std::uint64_t ticket = 0; ticket < 4; ++ticket)
    BOOST_REQUIRE(channel.files().send(file_with(100 + ticket).get(), ticket));
  BOOST_TEST(sealed_size(worker.files.receive(0).get(), true) == 100U);
  BOOST_TEST(sealed_size(worker.files.receive(2).get(), true) == 102U); // 1 was never asked for
  BOOST_TEST(sealed_size(worker.files.receive(3).get(), true) == 103U);
  BOOST_CHECK_THROW((void)worker.files.receive(4), BrokenPeer);
}

BOOST_AUTO_TEST_CASE(files_outlive_a_peer_that_left_others_unread) {
  Channel channel(4096, 4096, 0);
  {
    const WorkerEnd worker(channel.worker_fds());
    channel.close_worker_fds();
    BOOST_REQUIRE(channel.files().send(file_with(1).get(), 1));
    BOOST_REQUIRE(worker.files.send(file_with(2).get(), 1));
  }
  BOOST_TEST(sealed_size(channel.files().receive(1).get(), true) == 2U);
  BOOST_CHECK_THROW((void)channel.files().receive(2), BrokenPeer);
}

BOOST_AUTO_TEST_CASE(a_full_socket_is_a_result) {
  Channel channel(4096, 4096, 0);
  const WorkerEnd worker(channel.worker_fds());
  const UniqueFd file = file_with(1);
  std::uint64_t sent = 0;
  while (sent < 100'000 && channel.files().send(file.get(), sent))
    ++sent;
  BOOST_TEST((sent > 0 && sent < 100'000));
  BOOST_TEST(static_cast<bool>(worker.files.receive(0)));
  BOOST_TEST(channel.files().send(file.get(), sent));
}

BOOST_AUTO_TEST_CASE(a_file_that_could_still_change_is_refused) {
  const UniqueFd open = create_memory_file("open", 100);
  BOOST_CHECK_THROW(sealed_size(open.get(), true), BrokenPeer);
  seal(open.get(), false);
  BOOST_CHECK_THROW(sealed_size(open.get(), true), BrokenPeer);
  BOOST_TEST(sealed_size(open.get(), false) == 100U);
}

#ifndef __SANITIZE_THREAD__
BOOST_AUTO_TEST_CASE(a_process_ends_when_its_descriptor_is_closed) {
  int fds[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(fds[0]);
    exit_when_closed(fds[1], 42);
    for (;;)
      ::pause();
  }
  ::close(fds[1]);
  BOOST_TEST(::write(fds[0], "x", 1) == 1); // data is no end
  ::close(fds[0]);
  int status = 0;
  BOOST_TEST(::waitpid(child, &status, 0) == child);
  BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 42));
}
#endif
