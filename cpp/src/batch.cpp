#include "headrace/batch.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "headrace/clock.hpp"
#include "headrace/rows.hpp"

namespace headrace {

namespace {

TensorRef entry_at(const RecordHeader &record, std::size_t place) noexcept {
  TableWalk walk(record);
  for (std::size_t i = 0; i < place; ++i)
    walk.next();
  return *walk.next();
}

template <typename T> T capped(std::uint64_t value) noexcept {
  return static_cast<T>(std::min<std::uint64_t>(value, std::numeric_limits<T>::max()));
}

// Stacks string tensors: texts one after another, offsets moved along.
class StringStack {
public:
  StringStack(std::byte *to, std::uint64_t bytes, std::uint64_t elements) noexcept
      : text_(to), offsets_(reinterpret_cast<std::uint64_t *>(to + bytes) - (elements + 1)) {
    *offsets_ = 0;
  }

  void add(const TensorView &tensor) noexcept {
    const std::uint64_t text = text_bytes(whole_range(tensor));
    if (text != 0)
      std::memcpy(text_ + end_, tensor.data, text);
    for (const std::uint64_t offset : tensor.string_offsets().subspan(1))
      *++offsets_ = end_ + offset;
    end_ += text;
  }

  // The bytes between the texts and the offsets.
  void pad() noexcept { std::memset(text_ + end_, 0, align_up(end_, 8) - end_); }

private:
  std::byte *text_;
  std::uint64_t *offsets_; // the last one written
  std::uint64_t end_ = 0;
};

} // namespace

std::uint64_t RunClock::begin() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t now = monotonic_ns();
  running_.insert(now);
  publish();
  return now;
}

void RunClock::end(std::uint64_t began_ns) {
  const std::lock_guard lock(mutex_);
  running_.erase(running_.find(began_ns));
  publish();
}

void RunClock::publish() const noexcept {
  const std::uint64_t oldest = running_.empty() ? 0 : *running_.begin();
  for (const auto &port : ports_)
    port->publish_running_since(oldest);
}

Batch::Batch(std::vector<TakenRequest> requests, std::shared_ptr<RunClock> clock,
             std::shared_ptr<const void> place)
    : requests_(std::move(requests)), size_(requests_.size()), clock_(std::move(clock)),
      place_(std::move(place)),
      signature_(&requests_[0].port->signatures().all()[requests_[0].record->signature]),
      keeps_signature_(requests_[0].port) {
  for (const TakenRequest &request : requests_)
    rows_ += request.record->rows;
  gather();
}

Batch::~Batch() {
  if (!requests_.empty())
    fail("internal", "the batch was given up without an answer");
}

void Batch::gather() {
  const std::size_t tensors = requests_[0].record->tensors;
  inputs_.reserve(tensors);
  for (std::size_t place = 0; place < tensors; ++place) {
    const TensorRef tensor = entry_at(*requests_[0].record, place);
    if (requests_.size() == 1 && requests_[0].payload)
      inputs_.push_back({tensor.index, tensor.view(requests_[0].data), requests_[0].payload});
    else
      inputs_.push_back(stack(place));
  }
}

BatchInput Batch::stack(std::size_t place) const {
  std::vector<TensorView> parts;
  parts.reserve(requests_.size());
  std::uint64_t bytes = 0;
  std::uint64_t elements = 0;
  const std::size_t index = entry_at(*requests_[0].record, place).index;
  for (const TakenRequest &request : requests_) {
    const TensorView &part =
        parts.emplace_back(entry_at(*request.record, place).view(request.data));
    const ElementRange whole = whole_range(part);
    bytes += part.dtype == DType::kString ? text_bytes(whole) : part.bytes;
    elements += whole.count;
  }
  const bool strings = parts[0].dtype == DType::kString;
  if (strings)
    bytes = align_up(bytes, 8) + 8 * (elements + 1);
  auto buffer = std::make_shared<AlignedBuffer>(bytes);
  if (strings) {
    StringStack stack(buffer->data(), bytes, elements);
    for (const TensorView &part : parts)
      stack.add(part);
    stack.pad();
  } else {
    std::byte *to = buffer->data();
    for (const TensorView &part : parts) {
      if (part.bytes != 0)
        std::memcpy(to, part.data, part.bytes);
      to += part.bytes;
    }
  }
  TensorView whole{parts[0].dtype, parts[0].shape, buffer->data(), bytes};
  if (parts.size() > 1)
    whole.shape.set(0, rows_);
  return {index, whole, std::move(buffer)};
}

void Batch::begin_run() {
  if (began_ns_ != 0)
    return;
  began_ns_ = clock_->begin();
  running_ = true;
}

void Batch::end_run() noexcept {
  if (running_)
    clock_->end(began_ns_);
  running_ = false;
}

// What the first reply tells of the run. Nothing: it never ran.
RunNotes Batch::finish_run() {
  end_run();
  if (began_ns_ == 0)
    return {};
  return {began_ns_, monotonic_ns(), capped<std::uint16_t>(requests_.size()),
          capped<std::uint32_t>(rows_)};
}

const NamedTensor *Batch::find_unsplittable(std::span<const NamedTensor> outputs) const noexcept {
  if (requests_.size() < 2)
    return nullptr;
  for (const NamedTensor &output : outputs)
    if (output.tensor.shape.rank() == 0 || output.tensor.shape[0] != rows_)
      return &output;
  return nullptr;
}

void Batch::reply(std::span<const NamedTensor> outputs) {
  RunNotes run = finish_run();
  std::uint64_t first_row = 0;
  for (const TakenRequest &request : requests_) {
    OutputRows rows{outputs, first_row, std::nullopt};
    if (requests_.size() > 1)
      rows.rows = request.record->rows; // before the reply goes: the record goes with it
    first_row += rows.rows.value_or(0);
    request.port->send_reply(request, rows, run);
    run.requests = 0;
    run.rows = 0;
  }
  ring_ports();
  requests_.clear();
  place_.reset();
}

void Batch::fail(std::string_view code, std::string_view message) {
  RunNotes run = finish_run();
  for (const TakenRequest &request : requests_) {
    request.port->send_error(*request.record, {code, "", message}, run);
    run.requests = 0;
    run.rows = 0;
  }
  ring_ports();
  requests_.clear();
  place_.reset();
}

std::vector<std::unique_ptr<Batch>> Batch::split() {
  end_run();
  drop_inputs();
  std::vector<std::unique_ptr<Batch>> singles;
  singles.reserve(requests_.size());
  for (TakenRequest &request : requests_) {
    std::vector<TakenRequest> one;
    one.push_back(std::move(request));
    singles.push_back(std::make_unique<Batch>(std::move(one), clock_, place_));
  }
  requests_.clear();
  place_.reset();
  return singles;
}

// One wake-up for each front end: a bell that was rung already costs no system call.
void Batch::ring_ports() const noexcept {
  const WorkerPort *last = nullptr;
  for (const TakenRequest &request : requests_) {
    if (request.port.get() != last)
      request.port->ring();
    last = request.port.get();
  }
}

} // namespace headrace
