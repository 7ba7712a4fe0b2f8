#include "headrace/collector.hpp"

#include <algorithm>
#include <cerrno>

#include "headrace/clock.hpp"

namespace headrace {

namespace {

// How far behind a port's oldest request to look for ones that go with it. Bounds the work for one
// batch where thousands of requests wait that all have different shapes.
constexpr std::size_t kLookAhead = 1024;

constexpr short kGone = POLLHUP | POLLERR | POLLNVAL;

bool must_be_alone(const WaitingRequest &request) noexcept {
  return (request.record->flags & kFlagAlone) != 0;
}

TakenRequest take(const std::shared_ptr<WorkerPort> &port, const WaitingRequest &request) {
  return {port, request.record, request.data, request.payload};
}

} // namespace

Collector::Collector(std::vector<std::shared_ptr<WorkerPort>> ports, BatchSettings settings)
    : settings_(settings), ports_(std::move(ports)), clock_(std::make_shared<RunClock>(ports_)),
      occupancy_(std::make_shared<Occupancy>()) {}

bool Collector::all_closed() const noexcept {
  return std::all_of(ports_.begin(), ports_.end(), [](const auto &p) { return p->is_closed(); });
}

void Collector::read_ports() {
  for (const auto &port : ports_) {
    if (port->is_closed())
      continue;
    try {
      port->read_published();
    } catch (const BrokenPeer &) {
      port->close();
      throw;
    }
  }
}

Collection Collector::collect(int timeout_ms) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t deadline =
      timeout_ms < 0 ? ~std::uint64_t{0}
                     : monotonic_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  for (;;) {
    if (!occupancy_->wait_for_room(false, deadline))
      return {Collected::kTimeout, nullptr};
    read_ports();
    if (auto batch = form_batch(deadline))
      return {Collected::kBatch, std::move(batch)};
    if (all_closed())
      return {Collected::kClosed, nullptr};
    int left_ms = -1;
    if (timeout_ms >= 0) {
      const std::uint64_t now = monotonic_ns();
      if (now >= deadline)
        return {Collected::kTimeout, nullptr};
      left_ms = static_cast<int>((deadline - now + 999'999) / 1'000'000);
    }
    if (wait(left_ms))
      return {Collected::kInterrupted, nullptr};
  }
}

std::unique_ptr<Batch> Collector::form_batch(std::uint64_t deadline_ns) {
  std::vector<TakenRequest> taken;
  for (std::size_t i = 0; i < ports_.size() && taken.empty(); ++i) {
    const std::size_t first = (turn_ + i) % ports_.size();
    const std::uint64_t key = begin_batch(ports_[first], deadline_ns, taken);
    if (key == 0)
      continue;
    std::uint64_t rows = taken[0].record->rows;
    for (std::size_t j = 0; j < ports_.size(); ++j)
      join_batch(ports_[(first + j) % ports_.size()], key, taken, rows);
  }
  for (const auto &port : ports_)
    port->pass_decided();
  if (taken.empty())
    return nullptr;
  turn_ = (turn_ + 1) % ports_.size();
  auto place = occupancy_->enter((taken[0].record->flags & kFlagAlone) != 0);
  return std::make_unique<Batch>(std::move(taken), clock_, std::move(place));
}

// The port's oldest request that can be run, with its key; 0 where there is none, or where it runs
// alone.
std::uint64_t Collector::begin_batch(const std::shared_ptr<WorkerPort> &port,
                                     std::uint64_t deadline_ns, std::vector<TakenRequest> &taken) {
  for (WaitingRequest &request : port->waiting()) {
    if (request.decided)
      continue;
    // Before it is claimed: while it waits for the others it is no suspect of a second death.
    if (must_be_alone(request) && !occupancy_->wait_for_room(true, deadline_ns))
      return 0;
    if (!port->claim(request, monotonic_ns()))
      continue;
    taken.push_back(take(port, request));
    return request.key;
  }
  return 0;
}

void Collector::join_batch(const std::shared_ptr<WorkerPort> &port, std::uint64_t key,
                           std::vector<TakenRequest> &taken, std::uint64_t &rows) {
  const std::uint64_t now = monotonic_ns();
  auto &waiting = port->waiting();
  const std::size_t end = std::min(waiting.size(), kLookAhead);
  for (std::size_t i = 0; i < end; ++i) {
    WaitingRequest &request = waiting[i];
    if (request.decided || request.key != key || !may_share(*taken[0].record, *request.record))
      continue;
    if (rows + request.record->rows > settings_.max_rows)
      return; // a later, smaller one shall not overtake it
    if (!port->claim(request, now))
      continue;
    rows += request.record->rows;
    taken.push_back(take(port, request));
  }
}

// False: something was published in between.
bool Collector::arm() {
  bool idle = true;
  for (const auto &port : ports_)
    if (!port->is_closed())
      port->doorbell().arm();
  for (const auto &port : ports_)
    idle = idle && (port->is_closed() || !port->has_published());
  return idle;
}

void Collector::disarm() {
  for (const auto &port : ports_)
    if (!port->is_closed() && !port->doorbell().disarm())
      port->doorbell().clear();
}

// Sleeps until a bell rings, a front end goes, or the time is over. True: a signal came.
bool Collector::wait(int timeout_ms) {
  bool interrupted = false;
  if (arm()) {
    polled_.clear();
    for (const auto &port : ports_) { // poll passes over negative descriptors
      polled_.push_back({port->is_closed() ? -1 : port->doorbell().fd(), POLLIN, 0});
      polled_.push_back({port->is_closed() ? -1 : port->peer_fd(), 0, 0});
    }
    const int ready = ::poll(polled_.data(), polled_.size(), timeout_ms);
    interrupted = ready < 0 && errno == EINTR;
    for (std::size_t i = 0; ready > 0 && i < ports_.size(); ++i)
      if ((polled_[2 * i + 1].revents & kGone) != 0)
        ports_[i]->close();
  }
  disarm();
  return interrupted;
}

} // namespace headrace
