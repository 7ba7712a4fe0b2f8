// What `_core.FrontPort` holds: the core's port, and the connections that wait for its answers.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "headrace/byte_buffer.hpp"
#include "headrace/front_port.hpp"

namespace headrace::bindings {

struct FastConnection;

/// The connections whose requests a port carries on the fast path. A tag stands for one until it
/// is taken back; a request may outlive its tag, whose number is then another connection's, so
/// whoever finds a connection by the tag of a reply compares the ids of the request, too. The GIL
/// guards it.
class CarriedRequests {
public:
  CarriedRequests() = default;
  CarriedRequests(const CarriedRequests &) = delete;
  CarriedRequests &operator=(const CarriedRequests &) = delete;
  ~CarriedRequests() { clear(); }

  /// A tag, never 0, and a reference to the connection. Throws std::bad_alloc.
  std::uint64_t add(FastConnection *connection);
  /// Borrowed; null where the tag stands for none.
  FastConnection *find(std::uint64_t tag) const noexcept;
  /// Ends the tag. The reference goes.
  void remove(std::uint64_t tag) noexcept;
  /// Ends all of them.
  void clear() noexcept;
  std::size_t size() const noexcept { return slots_.size() - free_.size(); }
  /// Those whose request's deadline is no later than this.
  pybind11::list connections(std::uint64_t deadline_ns) const;

private:
  void grow();

  std::vector<FastConnection *> slots_; // by tag - 1
  std::vector<std::size_t> free_;
};

/// The core's port, the buffer that small replies are encoded in, and who waits for them.
struct PyFrontPort {
  PyFrontPort(std::shared_ptr<Channel> channel, std::shared_ptr<SignatureSet> signatures,
              std::uint64_t max_payload_bytes, std::uint64_t max_reply_bytes)
      : port(std::move(channel), std::move(signatures), max_payload_bytes, max_reply_bytes) {}

  FrontPort port;
  ByteBuffer text;
  CarriedRequests carried;
};

} // namespace headrace::bindings
