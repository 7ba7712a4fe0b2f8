#include "headrace/occupancy.hpp"

#include <chrono>

#include "headrace/clock.hpp"

namespace headrace {

std::shared_ptr<const void> Occupancy::enter(bool alone) {
  const std::lock_guard lock(mutex_);
  out_ += 1;
  alone_out_ = alone_out_ || alone;
  // Nothing is owned but the entry: any non-null pointer would do.
  return {this, [self = shared_from_this(), alone](const void *) { self->leave(alone); }};
}

void Occupancy::leave(bool alone) noexcept {
  {
    const std::lock_guard lock(mutex_);
    out_ -= 1;
    alone_out_ = alone_out_ && !alone;
  }
  left_.notify_all();
}

bool Occupancy::wait_for_room(bool alone, std::uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  const auto has_room = [&] { return alone ? out_ == 0 : !alone_out_; };
  if (deadline_ns == ~std::uint64_t{0}) {
    left_.wait(lock, has_room);
    return true;
  }
  const std::uint64_t now = monotonic_ns();
  const std::chrono::nanoseconds left(deadline_ns > now ? deadline_ns - now : 0);
  return left_.wait_for(lock, left, has_room);
}

} // namespace headrace
