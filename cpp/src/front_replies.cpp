// FrontPort's other half: replies.
#include <algorithm>

#include "headrace/front_port.hpp"

namespace headrace {

std::uint64_t ReplyLedger::hold(std::uint64_t begin, std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  held_.push_back({begin, false});
  taken_ = std::max(taken_, end);
  return first_held_ + held_.size() - 1;
}

void ReplyLedger::release(std::uint64_t held) {
  const std::lock_guard lock(mutex_);
  held_[held - first_held_].released = true;
  free_what_can_be();
}

void ReplyLedger::taken_to(std::uint64_t position) {
  const std::lock_guard lock(mutex_);
  taken_ = position;
  free_what_can_be();
}

void ReplyLedger::free_what_can_be() {
  while (!held_.empty() && held_.front().released) {
    held_.pop_front();
    first_held_ += 1;
  }
  reader_.free_to(held_.empty() ? taken_ : held_.front().begin);
}

HeldReply::~HeldReply() {
  if (ledger_)
    ledger_->release(held_);
}

void FrontPort::begin_taking() {
  require_open();
  // Rung since it was armed (or never armed: `finish_taking` left it readable). Reading too early
  // costs a needless wake-up, never a lost one.
  if (reply_bell().was_rung())
    reply_bell().clear();
}

bool FrontPort::sleep() {
  reply_bell().arm();
  if (!ledger_->reader().has_more())
    return true;
  if (!reply_bell().disarm())
    reply_bell().clear();
  return false;
}

void FrontPort::finish_taking(bool exhausted) {
  taken_payload_.reset();
  ledger_->taken_to(ledger_->reader().position());
  free_requests();
  if (!exhausted)
    reply_bell().ring_anyway();
}

FrontPort::InFlight *FrontPort::find_ticket(const RecordHeader &reply) noexcept {
  if (reply.ticket < first_ticket_ || reply.ticket - first_ticket_ >= requests_.size())
    return nullptr;
  InFlight &request = requests_[reply.ticket - first_ticket_];
  const bool fits = request.request_id == reply.request_id && request.status == Status::kOpen;
  return fits ? &request : nullptr;
}

std::optional<TakenReply> FrontPort::next_reply() {
  RingReader &reader = ledger_->reader();
  for (;;) {
    const auto published = reader.peek();
    if (published.empty())
      return std::nullopt;
    const RecordHeader *reply = find_record(published);
    if (reply == nullptr || reply->kind == RecordKind::kRequest)
      throw BrokenPeer("the reply ring holds no record where one should begin");
    taken_payload_.reset();
    if ((reply->flags & kFlagByReference) != 0) {
      const UniqueFd file = channel_->files().receive(reply->ticket);
      const std::uint64_t size = sealed_size(file.get(), true);
      if (size != 0 && size <= max_reply_bytes_)
        taken_payload_ = map_private(file.get(), size);
    }
    taken_begin_ = reader.position();
    reader.skip(reply->length);
    InFlight *request = find_ticket(*reply);
    if (request != nullptr)
      return take(*reply, *request);
    stats_.unknown_replies += 1;
  }
}

// Fills outputs_. Null: all right; else what is wrong with the reply.
const char *FrontPort::read_outputs(const RecordHeader &reply, const InFlight &request,
                                    std::span<const std::byte> data) {
  outputs_.clear();
  if (const char *wrong = check_tensors(reply, data))
    return wrong;
  const auto &declared = signatures_->all()[request.signature].outputs();
  TableWalk walk(reply);
  while (const auto tensor = walk.next()) {
    const bool named = tensor->index != kUndeclared;
    if (named && tensor->index >= declared.size())
      return "an output that the signature does not have";
    outputs_.push_back({named ? std::string_view(declared[tensor->index].first) : tensor->name,
                        tensor->view(data.data())});
  }
  return nullptr;
}

// A run takes no time only where there was none: the request expired, or was malformed.
void FrontPort::measure_run(const RecordHeader &reply, RequestMetrics &metrics) {
  if (reply.time_a_ns == 0)
    return;
  metrics.run.record(reply.time_a_ns);
  metrics.wait.record(reply.time_b_ns);
  if (reply.batch == 0)
    return;
  metrics.batch_requests.record(reply.batch);
  metrics.batch_rows.record(reply.batch_rows);
}

TakenReply FrontPort::take(const RecordHeader &reply, InFlight &request) {
  TakenReply taken;
  taken.request_id = request.request_id;
  taken.tag = request.tag;
  taken.form = request.form;
  taken.encode = std::move(request.encode);
  taken.run_ns = reply.time_a_ns;
  taken.wait_ns = reply.time_b_ns;
  taken.metrics = &metrics_->of(request.signature, request.api);
  measure_run(reply, *taken.metrics);
  if (reply.kind == RecordKind::kError) {
    taken.error = read_error(reply).value_or(ErrorText{"internal", "", "a malformed error record"});
  } else {
    const bool by_reference = (reply.flags & kFlagByReference) != 0;
    const auto data =
        by_reference ? std::span<const std::byte>(taken_payload_.bytes()) : inline_data(reply);
    taken.data_bytes = data.size();
    if (const char *wrong = read_outputs(reply, request, data))
      taken.error = ErrorText{"internal", "", wrong};
    taken.outputs = outputs_;
  }
  stats_.replies += 1;
  stats_.errors += taken.error.has_value();
  stats_.wait_ns += taken.wait_ns;
  stats_.run_ns += taken.run_ns;
  settle(request, Status::kAnswered);
  return taken;
}

std::unique_ptr<HeldReply> FrontPort::hold(const TakenReply &taken) {
  std::unique_ptr<HeldReply> held(new HeldReply);
  held->outputs_.assign(taken.outputs.begin(), taken.outputs.end());
  held->signatures_ = signatures_;
  held->encode_ = taken.encode;
  held->metrics_ = {metrics_, taken.metrics}; // keeps all of them alive
  held->data_bytes_ = taken.data_bytes;
  held->form_ = taken.form;
  if (taken_payload_.data() != nullptr) {
    // The ring can go on: only undeclared names still point into the record.
    for (NamedTensor &output : held->outputs_)
      output.name = held->names_.emplace_back(output.name);
    held->payload_ = std::move(taken_payload_);
  } else {
    held->held_ = ledger_->hold(taken_begin_, ledger_->reader().position());
    held->ledger_ = ledger_;
  }
  return held;
}

} // namespace headrace
