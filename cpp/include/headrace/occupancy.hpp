// How many batches are out of a collector's hands and not answered yet, so that one that may have
// killed a worker can have the next worker to itself.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace headrace {

/// Thread-safe.
class Occupancy : public std::enable_shared_from_this<Occupancy> {
public:
  /// A batch goes out; it is back when the last copy of what this returns has gone. `alone`: see
  /// `wait_for_room`.
  std::shared_ptr<const void> enter(bool alone);
  /// Waits until no batch is out that must be alone; with `alone`, until none is out at all.
  /// Monotonic clock, ns; ~0: as long as it takes. False: the deadline has passed.
  bool wait_for_room(bool alone, std::uint64_t deadline_ns);

private:
  void leave(bool alone) noexcept;

  std::mutex mutex_;
  std::condition_variable left_;
  std::size_t out_ = 0;
  bool alone_out_ = false;
};

} // namespace headrace
