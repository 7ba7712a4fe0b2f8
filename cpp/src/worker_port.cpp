#include "headrace/worker_port.hpp"

#include <algorithm>

#include "headrace/clock.hpp"

namespace headrace {

namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 29);
}

// Of signature, inputs, dtypes and inner extents. Equal keys are compared in full before they share
// a batch.
std::uint64_t key_of(const RecordHeader &record) noexcept {
  std::uint64_t hash = mix(record.signature, record.tensors);
  TableWalk walk(record);
  while (const auto tensor = walk.next()) {
    hash = mix(hash, std::uint64_t{tensor->index} << 8 | static_cast<std::uint64_t>(tensor->dtype));
    for (const std::uint64_t extent : tensor->dims.subspan(1))
      hash = mix(hash, extent);
  }
  return std::max<std::uint64_t>(hash, 1); // 0 means "alone"
}

} // namespace

bool is_batchable(const Signature &signature) noexcept {
  const auto stacks = [](const auto &named) {
    const TensorSpec &spec = named.second;
    return spec.known_rank && !spec.dims.empty() && !spec.dims[0].has_value();
  };
  const auto all_stack = [&](const Signature::Specs &specs) {
    return !specs.empty() && std::all_of(specs.begin(), specs.end(), stacks);
  };
  return all_stack(signature.inputs()) && all_stack(signature.outputs());
}

bool may_share(const RecordHeader &a, const RecordHeader &b) noexcept {
  if (a.signature != b.signature || a.tensors != b.tensors)
    return false;
  TableWalk walk_a(a);
  TableWalk walk_b(b);
  while (const auto x = walk_a.next()) {
    const auto y = walk_b.next();
    if (x->index != y->index || x->dtype != y->dtype || x->dims.size() != y->dims.size() ||
        !std::equal(x->dims.begin() + 1, x->dims.end(), y->dims.begin() + 1))
      return false;
  }
  return true;
}

WorkerPort::WorkerPort(std::span<const int> fds, std::shared_ptr<const SignatureSet> signatures,
                       std::uint64_t max_reply_bytes)
    : end_(fds), signatures_(std::move(signatures)), max_reply_bytes_(max_reply_bytes),
      reader_(end_.requests), writer_(end_.replies) {
  for (const Signature &signature : signatures_->all())
    batchable_.push_back(is_batchable(signature));
}

void WorkerPort::close() noexcept {
  closed_ = true;
  waiting_.clear();
}

void WorkerPort::publish_running_since(std::uint64_t ns) const noexcept {
  // A note on its own: nothing is read by way of it.
  end_.requests.header().running_since_ns.store(ns, std::memory_order_relaxed);
}

void WorkerPort::read_published() {
  for (auto published = reader_.peek(); !published.empty(); published = reader_.peek()) {
    RecordHeader *record = find_record(published);
    if (record == nullptr || record->kind != RecordKind::kRequest)
      throw BrokenPeer("the request ring holds no request where one should begin");
    const std::uint64_t position = reader_.position();
    reader_.skip(record->length);
    add_waiting(*record, position);
  }
}

void WorkerPort::add_waiting(RecordHeader &record, std::uint64_t position) {
  WaitingRequest request{.record = &record, .position = position};
  auto data = inline_data(record);
  if ((record.flags & kFlagByReference) != 0) {
    const UniqueFd file = end_.files.receive(record.ticket);
    const std::uint64_t size = sealed_size(file.get(), true);
    request.payload =
        std::make_shared<Mapping>(size == 0 ? Mapping() : map_private(file.get(), size));
    data = request.payload->bytes();
  }
  request.data = data.data();
  if (const char *wrong = check_request(request, data)) {
    stats_.malformed += 1;
    request.decided = true;
    if (leave_waiting(record, RecordState::kRunning)) {
      send_error(record, {"internal", "", wrong}, {});
      ring();
    }
  } else if (batchable_[record.signature] && record.rows != 0 && (record.flags & kFlagAlone) == 0) {
    request.key = key_of(record);
  }
  waiting_.push_back(std::move(request));
}

const char *WorkerPort::check_request(const WaitingRequest &request,
                                      std::span<const std::byte> data) const noexcept {
  const RecordHeader &record = *request.record;
  if (record.signature >= signatures_->all().size())
    return "a request for a signature that the model does not have";
  if (const char *wrong = check_tensors(record, data))
    return wrong;
  const std::size_t inputs = signatures_->all()[record.signature].inputs().size();
  TableWalk walk(record);
  while (const auto tensor = walk.next())
    if (tensor->index >= inputs)
      return "an input that the signature does not have";
  return nullptr;
}

bool WorkerPort::leave_waiting(RecordHeader &record, RecordState to) noexcept {
  RecordState expected = RecordState::kWaiting;
  // Against the front end's exchange in FrontPort::cancel: one of the two wins, and nothing is
  // published by it.
  return record.state.compare_exchange_strong(expected, to, std::memory_order_relaxed);
}

bool WorkerPort::claim(WaitingRequest &request, std::uint64_t now_ns) {
  RecordHeader &record = *request.record;
  request.decided = true;
  const bool expired = record.time_a_ns != 0 && record.time_a_ns <= now_ns;
  if (!leave_waiting(record, expired ? RecordState::kExpired : RecordState::kRunning)) {
    stats_.cancelled += 1;
    return false;
  }
  if (!expired) {
    stats_.taken += 1;
    return true;
  }
  stats_.expired += 1;
  send_error(record, {"deadline_exceeded", "", "the request's deadline passed before it was run"},
             {});
  ring();
  return false;
}

void WorkerPort::pass_decided() noexcept {
  const auto before = waiting_.size();
  while (!waiting_.empty() && waiting_.front().decided)
    waiting_.pop_front();
  if (waiting_.empty())
    reader_.pass_to(reader_.position());
  else if (waiting_.size() != before)
    reader_.pass_to(waiting_.front().position);
}

} // namespace headrace
