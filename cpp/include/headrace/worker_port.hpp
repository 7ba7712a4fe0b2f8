// The worker's side of a channel: it reads requests in order, hands them out, and sends replies.
//
// A record that was read waits here, still in the ring, until a batch takes it, its deadline
// passes, or the front end cancels it. Only then does the port say that it has passed the record: a
// cancelled record may be overwritten from that moment on, a running one once its reply has been
// taken. So nothing here looks at a record after that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/channel.hpp"
#include "headrace/doorbell.hpp"
#include "headrace/record.hpp"
#include "headrace/signature.hpp"

namespace headrace {

class WorkerPort;

/// A request that was handed out to be run. Its record stays readable until it is answered.
struct TakenRequest {
  std::shared_ptr<WorkerPort> port;
  const RecordHeader *record = nullptr;
  const std::byte *data = nullptr;  ///< of its tensors
  std::shared_ptr<Mapping> payload; ///< where `data` is, if by reference
};

/// A request that was read and not yet decided on.
struct WaitingRequest {
  RecordHeader *record = nullptr;
  const std::byte *data = nullptr;
  std::shared_ptr<Mapping> payload{};
  std::uint64_t position = 0;
  std::uint64_t key = 0; ///< equal for requests that may share a batch; 0: runs alone
  bool decided = false;
};

/// Rows of outputs that answer one request. `rows` of nothing: the outputs whole.
struct OutputRows {
  std::span<const NamedTensor> outputs;
  std::uint64_t first_row = 0;
  std::optional<std::uint64_t> rows;
};

/// Of the run that a reply is of. Its size is told with the first reply only, so that runs can be
/// counted.
struct RunNotes {
  std::uint64_t began_ns = 0; ///< by monotonic_ns(); 0: it never ran
  std::uint64_t ended_ns = 0;
  std::uint16_t requests = 0; ///< 0: not the first
  std::uint32_t rows = 0;
};

/// Counts since the port was made.
struct WorkerStats {
  std::uint64_t taken = 0;     ///< handed out to be run
  std::uint64_t cancelled = 0; ///< passed over
  std::uint64_t expired = 0;   ///< answered without a run
  std::uint64_t malformed = 0; ///< answered as such
};

/// Reading is the Collector's, under its lock; sending is thread-safe.
class WorkerPort {
public:
  /// `fds`: Channel::worker_fds, duplicated. Throws std::invalid_argument, BrokenPeer,
  /// std::system_error.
  WorkerPort(std::span<const int> fds, std::shared_ptr<const SignatureSet> signatures,
             std::uint64_t max_reply_bytes);
  WorkerPort(const WorkerPort &) = delete;
  WorkerPort &operator=(const WorkerPort &) = delete;
  ~WorkerPort() = default;

  // Reading.

  /// Reads what was published since. Throws BrokenPeer.
  void read_published();
  /// Whether there is anything to read, waiting requests apart.
  bool has_published() const noexcept { return reader_.has_more(); }
  std::deque<WaitingRequest> &waiting() noexcept { return waiting_; }
  /// Takes a request over to be run. False: it was cancelled, or had expired and is answered now;
  /// decided either way.
  bool claim(WaitingRequest &request, std::uint64_t now_ns);
  /// Tells the front end how far this side has got.
  void pass_decided() noexcept;

  bool is_closed() const noexcept { return closed_; }
  /// The front end has gone, or broke the agreement: nothing is read or sent any more.
  void close() noexcept;
  Doorbell doorbell() const noexcept {
    return {end_.request_bell.get(), end_.requests.header().asleep};
  }
  int peer_fd() const noexcept { return end_.files.fd(); }
  void publish_running_since(std::uint64_t ns) const noexcept;
  const SignatureSet &signatures() const noexcept { return *signatures_; }
  const WorkerStats &stats() const noexcept { return stats_; }

  // Sending. Waits while the reply ring is full and the front end lives. False: it has gone.

  bool send_reply(const TakenRequest &request, const OutputRows &rows, const RunNotes &run);
  bool send_error(const RecordHeader &request, const ErrorText &text, const RunNotes &run);
  /// Wakes the front end if it sleeps: once after all replies of a batch.
  void ring() const noexcept;

private:
  void add_waiting(RecordHeader &record, std::uint64_t position);
  const char *check_request(const WaitingRequest &request,
                            std::span<const std::byte> data) const noexcept;
  bool leave_waiting(RecordHeader &record, RecordState to) noexcept;
  std::byte *reserve_reply(std::uint64_t bytes);
  bool send_file(int file, std::uint64_t ticket);
  bool nap();
  bool send_inline(const RecordHeader &fields, const OutputRows &rows, std::uint64_t data_bytes);
  bool send_by_reference(const RecordHeader &fields, const OutputRows &rows,
                         std::uint64_t data_bytes);
  bool send_error_locked(const RecordHeader &fields, ErrorText text);
  bool refuse_large(const RecordHeader &fields, const OutputRows &rows, std::uint64_t data_bytes);
  std::uint64_t lay_out(const OutputRows &rows, std::size_t signature);

  WorkerEnd end_;
  std::shared_ptr<const SignatureSet> signatures_;
  std::vector<bool> batchable_; // by signature
  std::uint64_t max_reply_bytes_;
  RingReader reader_;
  std::deque<WaitingRequest> waiting_; // in the order of the ring
  bool closed_ = false;
  WorkerStats stats_;

  std::mutex sending_; // over all that follows
  RingWriter writer_;
  std::vector<TableEntry> entries_; // of the reply being written
};

/// Whether requests for this signature can be stacked: every input and output is declared, of a
/// known rank of at least 1, with a free first extent.
bool is_batchable(const Signature &signature) noexcept;

/// Whether two requests, checked and of equal keys, can really share a batch.
bool may_share(const RecordHeader &a, const RecordHeader &b) noexcept;

} // namespace headrace
