// The fast path: a small request on a quiet connection goes from the socket into the ring, and its
// answer back, without a frame of Python's and without an object but the answer.
//
//      quiet ── a whole small request whose head has a route ──► carried ── its answer ──► quiet
//        │                                                          │
//        │ anything else                                            │ anything else
//        ▼                                                          ▼
//     HttpConnection.receive                           HttpConnection.unfold: the request gets
//                                                      the objects that all others have
//
// A route holds while nothing changes that could send the request elsewhere: whoever changes
// models, ports, tokens or anything else that the general path would look up clears the routes, and
// the general path makes them anew. So every rule is kept in one place, the general path, and here
// are only its conclusions.
//
// The GIL guards all of it, and all of it belongs to one event loop.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "decode_options.hpp"
#include "front_port_object.hpp"
#include "headrace/histogram.hpp"
#include "headrace/json_encode.hpp"

namespace headrace::bindings {

/// `_core.Traffic`: what passed through a listener.
struct Traffic {
  PyObject ob_base;
  unsigned long long requests;
  unsigned long long bytes_received;
  unsigned long long bytes_sent;
};

/// `_core.FastRoute`: what the general path concluded for one head. Immutable.
struct FastRoute {
  pybind11::object head;        ///< the request's, for the general path
  pybind11::object adopt;       ///< likewise: see HttpConnection.unfold
  pybind11::object port_object; ///< keeps `port`
  PyFrontPort *port;
  std::shared_ptr<OwnedDecodeOptions> decode;
  std::shared_ptr<EncodeOptions> encode;
  std::shared_ptr<Histogram> latencies;
  std::string headers;      ///< lines of each answer beside those that all have
  std::uint64_t timeout_ns; ///< 0: none
  std::uint64_t max_rows; ///< in flight at the port, as `max_bytes`: the general path refuses then
  std::uint64_t max_bytes;
  std::size_t body_bytes;
  std::size_t max_answer_bytes; ///< larger ones are for the general path
  std::uint8_t api;
};

/// `_core.FastPath`: what the connections of a listener share.
class FastPath {
public:
  /// `receive_memory`: where all of them are read into, one at a time.
  FastPath(const pybind11::object &receive_memory, pybind11::object traffic);
  FastPath(const FastPath &) = delete;
  FastPath &operator=(const FastPath &) = delete;
  ~FastPath();

  struct Known {
    pybind11::object object; ///< keeps `route`
    const FastRoute *route;
  };

  /// For heads of these very bytes from now on. Starts afresh where there are too many.
  void add(std::string head, const pybind11::object &route);
  /// No route holds any more.
  void clear() noexcept;
  /// Null: none. `head` ends with its empty line.
  const Known *find(std::string_view head) const noexcept;

  std::string_view received(std::size_t count) const noexcept {
    return {static_cast<const char *>(memory_.buf), count};
  }
  Traffic &traffic() const noexcept { return *reinterpret_cast<Traffic *>(traffic_.ptr()); }

  std::string answer_start;     ///< of a 200 in JSON, up to its length; empty: no fast path
  double now = 0;               ///< the listener's coarse clock, in seconds
  std::uint64_t generation = 1; ///< how often the routes were cleared, and one

private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  Py_buffer memory_{};
  pybind11::object traffic_;
  std::unordered_map<std::string, Known, Hash, std::equal_to<>> routes_;
};

/// `_core.FastConnection`: the base of HttpConnection. Objects are owned, and null until they are
/// set.
struct FastConnection {
  PyObject ob_base;
  PyObject *path_object;  ///< keeps `path`
  PyObject *window;       ///< the memory that is read into next
  PyObject *write;        ///< the transport's method; None once it has gone
  PyObject *route_object; ///< keeps `route`
  FastPath *path;
  const FastRoute *route;   ///< of the request that is carried; else null
  std::uint64_t request_id; ///< 0: nothing is carried
  std::uint64_t tag;        ///< the port's for it; 0: none
  std::uint64_t began_ns;
  std::uint64_t deadline_ns; ///< the greatest number for none
  double since;              ///< when the present wait began, by the coarse clock
  char is_quiet;             ///< nothing is outstanding, half received, unsent or about to end
};

/// Sends the answer of the request that is carried, unless it is too large for this path. False:
/// nothing was done.
bool try_answer(FastConnection &connection, std::string_view body);

/// Has Python take over the request that is carried: see HttpConnection.unfold.
void unfold(FastConnection &connection);

} // namespace headrace::bindings
