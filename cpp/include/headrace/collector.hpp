// What a worker does between two runs: wait for requests on all of its ports, and form the next
// batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <poll.h>
#include <span>
#include <vector>

#include "headrace/batch.hpp"
#include "headrace/batch_settings.hpp"
#include "headrace/occupancy.hpp"
#include "headrace/worker_port.hpp"

namespace headrace {

enum class Collected : std::uint8_t { kBatch, kTimeout, kInterrupted, kClosed };

struct Collection {
  Collected what;
  std::unique_ptr<Batch> batch; ///< only with kBatch
};

/// Thread-safe: of several threads that collect, one waits for requests and the others wait for it.
///
/// Order: the ports have their turn one after another, and within a port the oldest request comes
/// first. It is joined by those that may share its batch, of its own port and then of the others,
/// each port's in order, while they fit. What does not fit, or goes with another batch, keeps its
/// place; as each batch begins with the oldest request of the port whose turn it is, none waits for
/// ever.
///
/// A request that may have killed a worker has this one to itself: it waits until every batch is
/// answered that was handed out, and nothing else is handed out until it is. Else a second death
/// would be put down to all that ran beside it.
class Collector {
public:
  explicit Collector(std::vector<std::shared_ptr<WorkerPort>> ports, BatchSettings settings = {});
  Collector(const Collector &) = delete;
  Collector &operator=(const Collector &) = delete;
  ~Collector() = default;

  /// Takes what waits and fits. Waits `timeout_ms` for the first (-1: as long as it takes; 0: not
  /// at all). kInterrupted: a signal came. kClosed: every front end has gone. Throws BrokenPeer,
  /// after which the port in question is closed.
  Collection collect(int timeout_ms);

  std::span<const std::shared_ptr<WorkerPort>> ports() const noexcept { return ports_; }

private:
  void read_ports();
  std::unique_ptr<Batch> form_batch(std::uint64_t deadline_ns);
  std::uint64_t begin_batch(const std::shared_ptr<WorkerPort> &port, std::uint64_t deadline_ns,
                            std::vector<TakenRequest> &taken);
  void join_batch(const std::shared_ptr<WorkerPort> &port, std::uint64_t key,
                  std::vector<TakenRequest> &taken, std::uint64_t &rows);
  bool arm();
  void disarm();
  bool wait(int timeout_ms);
  bool all_closed() const noexcept;

  const BatchSettings settings_;
  std::mutex mutex_; // over all that follows
  std::vector<std::shared_ptr<WorkerPort>> ports_;
  std::shared_ptr<RunClock> clock_;
  std::shared_ptr<Occupancy> occupancy_;
  std::vector<pollfd> polled_; // bell and socket of each port
  std::size_t turn_ = 0;       // the port that begins the next batch
};

} // namespace headrace
