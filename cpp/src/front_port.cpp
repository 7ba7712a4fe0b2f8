#include "headrace/front_port.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "headrace/clock.hpp"

#include "headrace/request_decoder.hpp"
#include "row_outputs.hpp"

namespace headrace {

namespace {

std::size_t most_inputs(const SignatureSet &signatures) noexcept {
  std::size_t most = 0;
  for (const Signature &signature : signatures.all())
    most = std::max(most, signature.inputs().size());
  return most;
}

Error too_large(std::uint64_t limit) {
  return {ErrorCode::kTooLarge, kNoOffset, "",
          "the request's tensors take more than " + std::to_string(limit) + " bytes"};
}

} // namespace

FrontPort::FrontPort(std::shared_ptr<Channel> channel,
                     std::shared_ptr<const SignatureSet> signatures,
                     std::uint64_t max_payload_bytes, std::uint64_t max_reply_bytes)
    : channel_(std::move(channel)), signatures_(std::move(signatures)),
      max_payload_bytes_(max_payload_bytes), max_reply_bytes_(max_reply_bytes),
      max_inputs_(most_inputs(*signatures_)), writer_(channel_->requests()),
      ledger_(std::make_shared<ReplyLedger>(channel_)),
      metrics_(std::make_shared<PortMetrics>(signatures_->all().size())) {
  require_open();
  reply_bell().arm();
}

Doorbell FrontPort::request_bell() const noexcept {
  return {channel_->request_bell(), channel_->requests().header().asleep};
}

Doorbell FrontPort::reply_bell() const noexcept {
  return {channel_->reply_bell(), channel_->replies().header().asleep};
}

void FrontPort::require_open() const {
  if (!channel_->is_open())
    throw std::logic_error("the channel is closed");
}

void FrontPort::close() noexcept { channel_->close(); }

std::uint64_t FrontPort::max_inline_bytes() const noexcept {
  return channel_->requests().capacity() / kInlineFraction;
}

std::uint64_t FrontPort::in_flight_bytes() noexcept {
  free_requests();
  return writer_.used() + payload_bytes_;
}

std::uint64_t FrontPort::running_since_ns() const noexcept {
  // A note on its own: nothing is read by way of it.
  return channel_->requests().header().running_since_ns.load(std::memory_order_relaxed);
}

// Header, tensors that begin on kTensorAlignment, and the largest table.
std::uint64_t FrontPort::record_room(std::uint64_t data_bound) const noexcept {
  const std::uint64_t overhead =
      kRecordDataOffset + kTensorAlignment * (max_inputs_ + 1) + max_table_bytes(max_inputs_);
  return data_bound > kMaxRingCapacity ? data_bound : align_up(data_bound + overhead, kCacheLine);
}

std::byte *FrontPort::reserve(std::uint64_t bytes) {
  std::byte *at = writer_.reserve(bytes);
  if (at == nullptr) { // cancelled records may be free by now
    free_requests();
    at = writer_.reserve(bytes);
  }
  stats_.full += at == nullptr;
  return at;
}

void FrontPort::publish(std::uint32_t length, InFlight &&request) {
  request.position = writer_.position();
  request.length = length;
  open_requests_ += 1;
  open_rows_ += request.rows;
  payload_bytes_ += request.payload_bytes;
  stats_.submitted += 1;
  stats_.by_reference += static_cast<bool>(request.payload);
  requests_.push_back(std::move(request)); // before the commit: it may throw
  writer_.commit(length);
  request_bell().ring();
}

Result<Admission> FrontPort::submit(std::uint64_t request_id, std::span<const std::byte> body,
                                    const DecodeOptions &decode,
                                    std::shared_ptr<const EncodeOptions> encode,
                                    std::uint64_t deadline_ns, const RequestNotes &notes) {
  require_open();
  const std::uint64_t began_ns = monotonic_ns();
  return submit_source(request_id, RequestDecoder(body, *signatures_, decode), began_ns,
                       std::move(encode), deadline_ns, notes);
}

Result<Admission> FrontPort::submit_tensors(std::uint64_t request_id, const GivenTensors &given,
                                            std::shared_ptr<const EncodeOptions> encode,
                                            std::uint64_t deadline_ns, const RequestNotes &notes) {
  require_open();
  const std::uint64_t began_ns = monotonic_ns();
  return submit_source(request_id, TensorRequest(given, *signatures_), began_ns, std::move(encode),
                       deadline_ns, notes);
}

Result<Admission> FrontPort::submit_source(std::uint64_t request_id, const RequestSource &source,
                                           std::uint64_t began_ns,
                                           std::shared_ptr<const EncodeOptions> encode,
                                           std::uint64_t deadline_ns, const RequestNotes &notes) {
  const std::uint64_t room = record_room(source.bound());
  if (room <= max_inline_bytes())
    return submit_inline(request_id, source, room, began_ns, std::move(encode), deadline_ns, notes);
  auto draft = draft_of(source, began_ns);
  if (!draft)
    return std::move(draft).error();
  return submit_draft(request_id, draft.value(), std::move(encode), deadline_ns, notes);
}

Result<Admission> FrontPort::submit_inline(std::uint64_t request_id, const RequestSource &source,
                                           std::uint64_t room, std::uint64_t began_ns,
                                           std::shared_ptr<const EncodeOptions> encode,
                                           std::uint64_t deadline_ns, const RequestNotes &notes) {
  std::byte *at = reserve(room);
  if (at == nullptr)
    return Admission{};
  sink_.reset({at + kRecordDataOffset, room - kRecordDataOffset - max_table_bytes(max_inputs_)});
  const auto decoded = source.decode(sink_);
  if (!decoded)
    return decoded.error();
  if (!sink_.complete())
    return too_large(room);
  const PredictRequest &request = decoded.value();
  const AnswerForm form{source.method(), request.format, request.rows};
  if (auto defect = answer_defect(request.signature_index, form, encode.get()))
    return *std::move(defect);
  const RecordHeader fields{.signature = static_cast<std::uint16_t>(request.signature_index),
                            .kind = RecordKind::kRequest,
                            .request_id = request_id,
                            .ticket = next_ticket(),
                            .rows = request.rows,
                            .time_a_ns = deadline_ns,
                            .time_b_ns = monotonic_ns()};
  const std::uint32_t length = finish_record(at, fields, sink_.data_bytes(), sink_.entries());
  publish(length, InFlight{.request_id = request_id,
                           .rows = request.rows,
                           .encode = std::move(encode),
                           .signature = request.signature_index,
                           .tag = notes.tag,
                           .api = notes.api,
                           .form = form});
  measure_submit(requests_.back(), fields.time_b_ns - began_ns, notes);
  return Admission{true, request.rows};
}

// What is certain to be wrong with the answer, before the model is bothered.
std::optional<Error> FrontPort::answer_defect(std::size_t signature, const AnswerForm &form,
                                              const EncodeOptions *encode) const {
  if (encode == nullptr || form.method != Method::kPredict || form.format != Format::kRow)
    return std::nullopt;
  return row_defect(signatures_->all()[signature], form.rows, *encode);
}

Result<Draft> FrontPort::prepare(std::span<const std::byte> body,
                                 const DecodeOptions &decode) const {
  const std::uint64_t began_ns = monotonic_ns();
  return draft_of(RequestDecoder(body, *signatures_, decode), began_ns);
}

Result<Draft> FrontPort::prepare_tensors(const GivenTensors &given) const {
  const std::uint64_t began_ns = monotonic_ns();
  return draft_of(TensorRequest(given, *signatures_), began_ns);
}

Result<Draft> FrontPort::draft_of(const RequestSource &source, std::uint64_t began_ns) const {
  MemoryFileSink sink(max_inputs_, source.bound(), max_payload_bytes_);
  const auto decoded = source.decode(sink);
  if (!decoded)
    return decoded.error();
  if (!sink.complete())
    return too_large(max_payload_bytes_);
  Draft draft;
  const auto entries = sink.entries();
  draft.entries.assign(entries.begin(), entries.end());
  draft.data_bytes = sink.data_bytes();
  draft.rows = decoded.value().rows;
  draft.signature = decoded.value().signature_index;
  draft.form = {source.method(), decoded.value().format, draft.rows};
  draft.file = sink.take_file();
  draft.decode_ns = monotonic_ns() - began_ns;
  return draft;
}

Result<Admission> FrontPort::submit_draft(std::uint64_t request_id, Draft &draft,
                                          std::shared_ptr<const EncodeOptions> encode,
                                          std::uint64_t deadline_ns, const RequestNotes &notes) {
  require_open();
  if (auto defect = answer_defect(draft.signature, draft.form, encode.get()))
    return *std::move(defect);
  std::byte *at = reserve(align_up(kRecordDataOffset + table_bytes(draft.entries), kCacheLine));
  if (at == nullptr)
    return Admission{};
  if (!channel_->files().send(draft.file.get(), next_ticket())) {
    stats_.full += 1;
    return Admission{};
  }
  const RecordHeader fields{.signature = static_cast<std::uint16_t>(draft.signature),
                            .kind = RecordKind::kRequest,
                            .flags = kFlagByReference,
                            .request_id = request_id,
                            .ticket = next_ticket(),
                            .rows = draft.rows,
                            .time_a_ns = deadline_ns,
                            .time_b_ns = monotonic_ns()};
  const std::uint32_t length = finish_record(at, fields, 0, draft.entries);
  publish(length, InFlight{.request_id = request_id,
                           .rows = draft.rows,
                           .payload_bytes = draft.data_bytes,
                           .payload = std::move(draft.file),
                           .encode = std::move(encode),
                           .signature = draft.signature,
                           .tag = notes.tag,
                           .api = notes.api,
                           .form = draft.form});
  measure_submit(requests_.back(), draft.decode_ns, notes);
  return Admission{true, draft.rows};
}

void FrontPort::measure_submit(const InFlight &request, std::uint64_t decode_ns,
                               const RequestNotes &notes) {
  RequestMetrics &metrics = metrics_->of(request.signature, request.api);
  metrics.receive.record(notes.receive_ns);
  metrics.decode.record(decode_ns);
  metrics.rows.record(request.rows);
}

void FrontPort::continue_metrics(const FrontPort &dead) noexcept {
  if (dead.metrics_->signatures() == metrics_->signatures())
    metrics_ = dead.metrics_;
}

RecordHeader &FrontPort::record_of(const InFlight &request) const noexcept {
  return *reinterpret_cast<RecordHeader *>(channel_->requests().at(request.position));
}

FrontPort::InFlight *FrontPort::find_open(std::uint64_t request_id) noexcept {
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const InFlight &r) {
    return r.request_id == request_id && r.status == Status::kOpen;
  });
  return found == requests_.end() ? nullptr : &*found;
}

// Nobody waits for it any more.
void FrontPort::settle(InFlight &request, Status status) noexcept {
  request.status = status;
  request.encode.reset();
  request.payload.reset();
  open_requests_ -= 1;
  open_rows_ -= request.rows;
  payload_bytes_ -= request.payload_bytes;
}

void FrontPort::free_requests() noexcept {
  std::uint64_t freed = 0;
  while (!requests_.empty()) {
    const InFlight &oldest = requests_.front();
    const std::uint64_t end = oldest.position + oldest.length;
    if (oldest.status == Status::kOpen ||
        (oldest.status == Status::kCancelled && writer_.passed() < end))
      break;
    freed = end;
    requests_.pop_front();
    first_ticket_ += 1;
  }
  if (freed != 0)
    writer_.free_to(freed);
}

bool FrontPort::cancel(std::uint64_t request_id) {
  InFlight *request = find_open(request_id);
  if (request == nullptr)
    return false;
  RecordState expected = RecordState::kWaiting;
  // Against the worker's exchange in WorkerPort::claim: one of the two wins, and nothing is
  // published by it.
  if (!record_of(*request).state.compare_exchange_strong(expected, RecordState::kCancelled,
                                                         std::memory_order_relaxed))
    return false;
  settle(*request, Status::kCancelled);
  stats_.cancelled += 1;
  free_requests();
  return true;
}

std::vector<Unanswered> FrontPort::unanswered() const {
  std::vector<Unanswered> left;
  for (const InFlight &request : requests_) {
    if (request.status != Status::kOpen)
      continue;
    // The worker is dead and its death was seen through the kernel: nothing moves this word any
    // more.
    const bool was_running =
        record_of(request).state.load(std::memory_order_relaxed) == RecordState::kRunning;
    left.push_back({request.request_id, was_running, request.deaths + was_running});
  }
  return left;
}

bool FrontPort::push_again(FrontPort &dead, std::uint64_t request_id, bool alone) {
  require_open();
  InFlight *old = dead.find_open(request_id);
  if (old == nullptr)
    throw std::out_of_range("no request " + std::to_string(request_id) + " is left to push again");
  const RecordHeader &record = dead.record_of(*old);
  std::byte *at = reserve(old->length);
  if (at == nullptr)
    return false;
  if (old->payload && !channel_->files().send(old->payload.get(), next_ticket())) {
    stats_.full += 1;
    return false;
  }
  std::memcpy(at, reinterpret_cast<const std::byte *>(&record), old->length);
  auto *copy = reinterpret_cast<RecordHeader *>(at);
  const bool was_running =
      record.state.load(std::memory_order_relaxed) == RecordState::kRunning; // as in unanswered
  copy->state.store(RecordState::kWaiting, std::memory_order_relaxed); // the commit publishes it
  copy->ticket = next_ticket();
  if (alone)
    copy->flags |= kFlagAlone;
  publish(old->length, InFlight{.request_id = request_id,
                                .deaths = old->deaths + was_running,
                                .rows = old->rows,
                                .payload_bytes = old->payload_bytes,
                                .payload = std::move(old->payload),
                                .encode = std::move(old->encode),
                                .signature = old->signature,
                                .api = old->api,
                                .form = old->form});
  dead.settle(*old, Status::kAnswered);
  return true;
}

} // namespace headrace
