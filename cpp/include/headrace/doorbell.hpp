// How a side with nothing to do sleeps, and how it is woken without a system call for a side that
// is awake.
//
//     consumer                                 producer
//     ────────                                 ────────
//     asleep.exchange(1)                       publish (head.store, release)
//     look at the ring again                   if asleep.exchange(0) was 1:
//       something there: asleep.exchange(0)      write the eventfd
//       nothing: block on the eventfd
//
// Why no wake-up is lost: both exchanges read the latest value of `asleep` and stand in one order.
// If the producer's comes second, it reads the 1 and writes the eventfd. If it comes first, the
// consumer's exchange reads what the producer's wrote and so happens after it, hence after the
// publishing: looking again finds the record. This is the usual "store, full fence, load" on both
// sides, with the fence folded into the exchange; an exchange on a line that the other side touches
// only when it goes to sleep costs what a fence costs, and ThreadSanitizer understands it.
#pragma once

#include <atomic>
#include <cstdint>

namespace headrace {

/// A new eventfd, non-blocking, closed on exec. Throws std::system_error.
int create_eventfd();

/// One direction's doorbell, as either side sees it: an eventfd and the `asleep` word in the ring's
/// header. Owns neither. The consumer's functions belong to the consumer's thread, `ring` to the
/// producer's.
class Doorbell {
public:
  Doorbell(int fd, std::atomic<std::uint32_t> &asleep) noexcept : fd_(fd), asleep_(&asleep) {}

  int fd() const noexcept { return fd_; }

  /// Producer: wakes the consumer if it sleeps. After publishing; once for many records.
  void ring() const noexcept {
    // Pairs with the exchange in arm(); see above.
    if (asleep_->exchange(0, std::memory_order_acq_rel) != 0)
      ring_anyway();
  }
  /// Makes the eventfd readable, whoever sleeps.
  void ring_anyway() const noexcept;

  /// Consumer: from now on the producer rings. Look at the ring again before blocking.
  void arm() const noexcept {
    // Pairs with the exchange in ring(); see above.
    asleep_->exchange(1, std::memory_order_acq_rel);
  }
  /// Consumer: awake. False: the producer has rung, or is about to, so that the eventfd has to be
  /// cleared some time.
  bool disarm() const noexcept {
    // Pairs with the exchange in ring(): exactly one of the two sees the 1.
    return asleep_->exchange(0, std::memory_order_acq_rel) != 0;
  }
  /// Consumer: whether the bell was rung since arm(), without a system call. A hint, hence relaxed:
  /// the records are found by way of the ring's head.
  bool was_rung() const noexcept { return asleep_->load(std::memory_order_relaxed) == 0; }
  /// Consumer: the eventfd is no longer readable.
  void clear() const noexcept;

private:
  int fd_;
  std::atomic<std::uint32_t> *asleep_;
};

} // namespace headrace
