// The front end's side of a channel: it decodes requests into the request ring and takes replies
// from the other.
//
// The request ring is also the memory of what is in flight. A record is freed, in order, once its
// reply has been taken (or, if it was cancelled, once the worker has passed it), so the ring's
// capacity bounds what is in flight, and after the worker's death `push_again` copies the record to
// the successor's ring as it stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headrace/answer.hpp"
#include "headrace/channel.hpp"
#include "headrace/doorbell.hpp"
#include "headrace/error.hpp"
#include "headrace/json_decode.hpp"
#include "headrace/json_encode.hpp"
#include "headrace/port_metrics.hpp"
#include "headrace/record.hpp"
#include "headrace/record_sink.hpp"
#include "headrace/request_source.hpp"
#include "headrace/signature.hpp"
#include "headrace/tensor_request.hpp"

namespace headrace {

/// A decoded request in memory of its own, ready to be submitted by reference. Movable, not
/// copyable.
struct Draft {
  UniqueFd file; ///< sealed
  std::vector<TableEntry> entries;
  std::uint64_t data_bytes = 0;
  std::uint64_t rows = 0;
  std::uint64_t decode_ns = 0;
  std::size_t signature = 0;
  AnswerForm form;
};

/// What became of a request that decoded.
struct Admission {
  bool accepted = false; ///< false: full; nothing was kept
  std::uint64_t rows = 0;
};

struct Unanswered {
  std::uint64_t request_id;
  bool was_running;     ///< when the worker died
  std::uint32_t deaths; ///< of workers that were running it, this one included
};

/// Counts since the port was made.
struct FrontStats {
  std::uint64_t submitted = 0;
  std::uint64_t by_reference = 0; ///< of these, those with a memfd of their own
  std::uint64_t full = 0;         ///< refused since the ring or the socket was full
  std::uint64_t replies = 0;      ///< taken, errors included
  std::uint64_t errors = 0;       ///< of these, error records
  std::uint64_t cancelled = 0;
  std::uint64_t unknown_replies = 0; ///< taken for no request in flight, and dropped
  std::uint64_t wait_ns = 0;         ///< sum over replies: submitted until its run began
  std::uint64_t run_ns = 0;          ///< sum over replies: time its run took
};

/// Frees the reply ring in order, whatever the order in which its records are given back.
/// Thread-safe: large replies are encoded on other threads, and go when those are done.
class ReplyLedger {
public:
  explicit ReplyLedger(std::shared_ptr<Channel> channel) noexcept
      : channel_(std::move(channel)), reader_(channel_->replies()) {}

  /// For the port alone.
  RingReader &reader() noexcept { return reader_; }
  /// The record in [begin, end) stays; returns what to give `release`.
  std::uint64_t hold(std::uint64_t begin, std::uint64_t end);
  void release(std::uint64_t held);
  /// All before `position` has been taken; what is held of it stays.
  void taken_to(std::uint64_t position);

private:
  struct Held {
    std::uint64_t begin;
    bool released;
  };

  void free_what_can_be();

  std::shared_ptr<Channel> channel_; // keeps the ring mapped
  RingReader reader_;
  std::mutex mutex_; // over all that follows
  std::deque<Held> held_;
  std::uint64_t first_held_ = 0; // the number of held_.front()
  std::uint64_t taken_ = 0;
};

/// A reply that is kept after the port has moved on: its record, or its memfd, and how its request
/// wants it encoded. May be used and destroyed on any thread, one at a time.
class HeldReply {
public:
  HeldReply(const HeldReply &) = delete;
  HeldReply &operator=(const HeldReply &) = delete;
  ~HeldReply();

  std::span<const NamedTensor> outputs() const noexcept { return outputs_; }
  std::uint64_t data_bytes() const noexcept { return data_bytes_; }
  const AnswerForm &form() const noexcept { return form_; }
  /// Whether the ring cannot free the record, nor those after it, while this lives.
  bool is_in_ring() const noexcept { return ledger_ != nullptr; }
  /// Null: the request came without.
  const EncodeOptions *encode_options() const noexcept { return encode_.get(); }
  /// Where the time goes that its encoding takes.
  Histogram &encode_times() const noexcept { return metrics_->encode; }

private:
  friend class FrontPort;
  HeldReply() = default;

  std::shared_ptr<ReplyLedger> ledger_; // null: nothing is held in the ring
  std::uint64_t held_ = 0;
  Mapping payload_;
  std::deque<std::string> names_; // of outputs that the signature does not declare
  std::shared_ptr<const SignatureSet> signatures_;
  std::vector<NamedTensor> outputs_;
  std::shared_ptr<const EncodeOptions> encode_;
  std::shared_ptr<RequestMetrics> metrics_; // part of the port's
  std::uint64_t data_bytes_ = 0;
  AnswerForm form_;
};

/// One reply as the port shows it: valid until the next call of `next_reply` or `finish_taking`.
struct TakenReply {
  std::uint64_t request_id = 0;
  std::uint64_t tag = 0; ///< as submitted; 0 where it was pushed again
  std::uint64_t wait_ns = 0;
  std::uint64_t run_ns = 0;
  std::optional<ErrorText> error;
  std::span<const NamedTensor> outputs; ///< if it is no error
  std::uint64_t data_bytes = 0;
  AnswerForm form;
  std::shared_ptr<const EncodeOptions> encode; ///< as submitted; may be null
  RequestMetrics *metrics = nullptr;           ///< of its signature and API; the port's
};

/// Single-owner, but for `prepare`, `prepare_tensors` and the constants, which any thread may call.
class FrontPort {
public:
  FrontPort(std::shared_ptr<Channel> channel, std::shared_ptr<const SignatureSet> signatures,
            std::uint64_t max_payload_bytes, std::uint64_t max_reply_bytes);
  FrontPort(const FrontPort &) = delete;
  FrontPort &operator=(const FrontPort &) = delete;
  ~FrontPort() = default;

  /// Decodes a body into the ring, or into a memfd where it may not fit, publishes it and wakes the
  /// worker. `deadline_ns`: monotonic_ns(), 0: none. kShape or kBatchSize, too, where the outputs
  /// as declared cannot be answered by rows. Throws std::logic_error on a closed port,
  /// std::system_error.
  Result<Admission> submit(std::uint64_t request_id, std::span<const std::byte> body,
                           const DecodeOptions &decode, std::shared_ptr<const EncodeOptions> encode,
                           std::uint64_t deadline_ns, const RequestNotes &notes = {});
  /// The same with tensors in the place of a body: they are checked, and copied once.
  Result<Admission> submit_tensors(std::uint64_t request_id, const GivenTensors &given,
                                   std::shared_ptr<const EncodeOptions> encode,
                                   std::uint64_t deadline_ns, const RequestNotes &notes = {});
  /// The first half of a submit by reference; needs nothing of the ring. Thread-safe. Throws
  /// std::system_error.
  Result<Draft> prepare(std::span<const std::byte> body, const DecodeOptions &decode) const;
  Result<Draft> prepare_tensors(const GivenTensors &given) const;
  /// The second half, which judges the outputs. `draft` is spent if it was accepted, else as it
  /// was.
  Result<Admission> submit_draft(std::uint64_t request_id, Draft &draft,
                                 std::shared_ptr<const EncodeOptions> encode,
                                 std::uint64_t deadline_ns, const RequestNotes &notes = {});

  /// Taking replies, by the wake-up protocol of an event loop: begin_taking; next_reply until it
  /// yields nothing and `sleep` says true, or until the caller has had enough; finish_taking.
  void begin_taking();
  /// Throws BrokenPeer where the worker's ring makes no sense.
  std::optional<TakenReply> next_reply();
  /// True: the worker rings from now on. False: something came in between, go on taking.
  bool sleep();
  /// `exhausted`: `sleep` said true; otherwise the doorbell stays readable so that the loop comes
  /// back.
  void finish_taking(bool exhausted);
  /// Keeps the reply that `next_reply` gave last.
  std::unique_ptr<HeldReply> hold(const TakenReply &taken);

  /// True: it had not begun and will not run, and no reply comes. False: unknown, or begun, or
  /// expired. Looks through what is in flight.
  bool cancel(std::uint64_t request_id);

  /// After the worker's death and the last take: what it left.
  std::vector<Unanswered> unanswered() const;
  /// Copies a request of a dead port into this one, where it counts as in flight; in the dead port
  /// no longer. False: full. Throws std::out_of_range where the dead port has no such request.
  bool push_again(FrontPort &dead, std::uint64_t request_id, bool alone);

  /// Goes on counting where a dead port of the same model stopped. Call it before anything is
  /// submitted here.
  void continue_metrics(const FrontPort &dead) noexcept;

  /// The worker sees that this side has gone. What is in flight stays readable for `push_again`.
  void close() noexcept;

  bool is_open() const noexcept { return channel_->is_open(); }
  int doorbell() const noexcept { return channel_->reply_bell(); }
  std::size_t in_flight() const noexcept { return open_requests_; }
  std::uint64_t in_flight_rows() const noexcept { return open_rows_; }
  /// Bytes of the ring that are not free, and of the memfds of requests in flight. Frees first what
  /// was cancelled and passed since: whoever admits by this figure would else wait for a submit
  /// that it refuses.
  std::uint64_t in_flight_bytes() noexcept;
  std::uint64_t capacity_bytes() const noexcept { return channel_->requests().capacity(); }
  /// A body whose bound is above travels by reference.
  std::uint64_t max_inline_bytes() const noexcept;
  std::uint64_t max_payload_bytes() const noexcept { return max_payload_bytes_; }
  /// When the oldest run began that goes on in the worker, by monotonic_ns(); 0: none does.
  std::uint64_t running_since_ns() const noexcept;
  const SignatureSet &signatures() const noexcept { return *signatures_; }
  const FrontStats &stats() const noexcept { return stats_; }
  const PortMetrics &metrics() const noexcept { return *metrics_; }

private:
  enum class Status : std::uint8_t { kOpen, kAnswered, kCancelled };
  struct InFlight {
    std::uint64_t request_id = 0;
    std::uint64_t position = 0; // of the record in the ring
    std::uint32_t length = 0;
    std::uint32_t deaths = 0;
    std::uint64_t rows = 0;
    std::uint64_t payload_bytes = 0;
    UniqueFd payload{}; // kept for push_again
    std::shared_ptr<const EncodeOptions> encode;
    std::size_t signature = 0;
    std::uint64_t tag = 0;
    std::uint8_t api = 0;
    AnswerForm form;
    Status status = Status::kOpen;
  };

  std::byte *reserve(std::uint64_t bytes);
  void publish(std::uint32_t length, InFlight &&request);
  Result<Admission> submit_source(std::uint64_t request_id, const RequestSource &source,
                                  std::uint64_t began_ns,
                                  std::shared_ptr<const EncodeOptions> encode,
                                  std::uint64_t deadline_ns, const RequestNotes &notes);
  Result<Admission> submit_inline(std::uint64_t request_id, const RequestSource &source,
                                  std::uint64_t room, std::uint64_t began_ns,
                                  std::shared_ptr<const EncodeOptions> encode,
                                  std::uint64_t deadline_ns, const RequestNotes &notes);
  std::optional<Error> answer_defect(std::size_t signature, const AnswerForm &form,
                                     const EncodeOptions *encode) const;
  Result<Draft> draft_of(const RequestSource &source, std::uint64_t began_ns) const;
  void measure_submit(const InFlight &request, std::uint64_t decode_ns, const RequestNotes &notes);
  void measure_run(const RecordHeader &reply, RequestMetrics &metrics);
  std::uint64_t record_room(std::uint64_t data_bound) const noexcept;
  std::uint64_t next_ticket() const noexcept { return first_ticket_ + requests_.size(); }
  RecordHeader &record_of(const InFlight &request) const noexcept;
  InFlight *find_open(std::uint64_t request_id) noexcept;
  InFlight *find_ticket(const RecordHeader &reply) noexcept;
  void settle(InFlight &request, Status status) noexcept;
  void free_requests() noexcept;
  const char *read_outputs(const RecordHeader &reply, const InFlight &request,
                           std::span<const std::byte> data);
  TakenReply take(const RecordHeader &reply, InFlight &request);
  Doorbell request_bell() const noexcept;
  Doorbell reply_bell() const noexcept;
  void require_open() const;

  std::shared_ptr<Channel> channel_;
  std::shared_ptr<const SignatureSet> signatures_;
  std::uint64_t max_payload_bytes_;
  std::uint64_t max_reply_bytes_;
  std::size_t max_inputs_;

  RingWriter writer_;
  RecordSink sink_;
  std::deque<InFlight> requests_;  // in the order of the ring
  std::uint64_t first_ticket_ = 0; // of requests_.front()
  std::size_t open_requests_ = 0;
  std::uint64_t open_rows_ = 0;
  std::uint64_t payload_bytes_ = 0;

  std::shared_ptr<ReplyLedger> ledger_;
  Mapping taken_payload_;            // of the reply that next_reply gave last
  std::uint64_t taken_begin_ = 0;    // likewise
  std::vector<NamedTensor> outputs_; // likewise
  FrontStats stats_;
  std::shared_ptr<PortMetrics> metrics_;
};

} // namespace headrace
