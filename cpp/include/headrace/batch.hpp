// A batch: requests that run together, their inputs stacked along dimension 0, and the way back for
// the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/memory_file.hpp"
#include "headrace/signature.hpp"
#include "headrace/tensor.hpp"
#include "headrace/worker_port.hpp"

namespace headrace {

/// Tells the front ends since when the oldest run goes on that has not ended, so that they can tell
/// a hung worker from an idle one. Thread-safe.
class RunClock {
public:
  explicit RunClock(std::vector<std::shared_ptr<WorkerPort>> ports) noexcept
      : ports_(std::move(ports)) {}

  /// Now, which is to be given back to `end`.
  std::uint64_t begin();
  void end(std::uint64_t began_ns);

private:
  void publish() const noexcept;

  std::mutex mutex_;
  std::multiset<std::uint64_t> running_;
  std::vector<std::shared_ptr<WorkerPort>> ports_;
};

/// An input of a batch, in memory that belongs to it: one buffer, or the memfd that the only
/// request came with.
struct BatchInput {
  std::size_t index = 0; ///< among the signature's inputs
  TensorView tensor;
  std::shared_ptr<const void> owner; ///< of the tensor's memory, which may be written
};

/// One or several requests for a signature. Owed to each of them is one answer; what was not
/// answered when the batch goes is answered with an error. Single-owner, but any thread may be the
/// owner.
///
/// The inputs are copies (but for a memfd's, mapped copy-on-write): a model may keep or change what
/// it was given, while the records stay as they came, to be run again, and go as soon as they are
/// answered.
class Batch {
public:
  /// Gathers. Precondition: at least one request; several only if each may_share with the others.
  /// `place` is let go of with the last answer: see Occupancy.
  Batch(std::vector<TakenRequest> requests, std::shared_ptr<RunClock> clock,
        std::shared_ptr<const void> place);
  Batch(const Batch &) = delete;
  Batch &operator=(const Batch &) = delete;
  ~Batch();

  const Signature &signature() const noexcept { return *signature_; }
  /// Requests, answered or not.
  std::size_t size() const noexcept { return size_; }
  /// Extent 0 of the inputs; 0 where they share none (then the size is 1).
  std::uint64_t rows() const noexcept { return rows_; }
  std::span<const BatchInput> inputs() const noexcept { return inputs_; }
  bool is_answered() const noexcept { return requests_.empty(); }

  /// The run begins; once, later calls do nothing.
  void begin_run();
  /// The inputs' memory goes as soon as nobody else holds it.
  void drop_inputs() noexcept { inputs_.clear(); }

  /// The first output whose extent 0 is not `rows()`, where the batch has to be split by rows;
  /// null: all are right.
  const NamedTensor *find_unsplittable(std::span<const NamedTensor> outputs) const noexcept;
  /// Gives each request its rows, or, if it is the only one, all. Precondition: find_unsplittable()
  /// is null, every dtype is supported. Blocks while a reply ring is full and its front end lives.
  void reply(std::span<const NamedTensor> outputs);
  /// An error record to each. May block likewise.
  void fail(std::string_view code, std::string_view message);
  /// A batch for each request, to be run singly; this one is left without requests.
  std::vector<std::unique_ptr<Batch>> split();

private:
  void gather();
  BatchInput stack(std::size_t place) const;
  void end_run() noexcept;
  RunNotes finish_run();
  void ring_ports() const noexcept;

  std::vector<TakenRequest> requests_; // that are owed an answer: all, or none any more
  std::size_t size_;
  std::shared_ptr<RunClock> clock_;
  std::shared_ptr<const void> place_;
  const Signature *signature_;
  std::shared_ptr<WorkerPort> keeps_signature_;
  std::uint64_t rows_ = 0;
  std::vector<BatchInput> inputs_;
  std::uint64_t began_ns_ = 0; // 0: not yet
  bool running_ = false;
};

} // namespace headrace
