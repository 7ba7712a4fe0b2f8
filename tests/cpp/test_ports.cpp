#include <boost/test/unit_test.hpp>

#include <csignal>
#include <cstring>
#include <future>
#include <map>
#include <numeric>
#include <poll.h>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "headrace/clock.hpp"
#include "headrace/collector.hpp"
#include "headrace/front_port.hpp"

using namespace headrace;

namespace {

constexpr std::uint64_t kLimit = 1 << 26;

TensorSpec vector_of(DType dtype) { return {dtype, "", true, {std::nullopt}}; }

// "double": x to y, float32. "text": strings to strings. Both batchable.
std::shared_ptr<const SignatureSet> signatures() {
  const auto one = [](const char *name, const char *in, const char *out, DType dtype) {
    return Signature(name, {{in, vector_of(dtype)}}, {{out, vector_of(dtype)}});
  };
  return std::make_shared<SignatureSet>(std::vector<Signature>{
      one("serving_default", "x", "y", DType::kFloat32), one("text", "x", "y", DType::kString)});
}

std::string numbers(const std::vector<float> &values) {
  std::string body = "{\"instances\":[";
  for (const float value : values)
    body += (body.back() == '[' ? "" : ",") + std::to_string(value);
  return body + "]}";
}

std::span<const std::byte> bytes_of(const std::string &text) {
  return std::as_bytes(std::span(text));
}

// For what runs on several threads, which Boost.Test's assertions must not.
void require(bool holds, const char *what) {
  if (!holds)
    throw std::runtime_error(what);
}

void wait_for_doorbell(const FrontPort &front) {
  pollfd waiting{front.doorbell(), POLLIN, 0};
  require(::poll(&waiting, 1, 30'000) == 1, "the doorbell rings within 30 s");
}

// Both ends in one process. Each maps the rings on its own, as two processes would.
struct Link {
  explicit Link(std::uint64_t request_bytes = 1 << 16, std::uint64_t reply_bytes = 1 << 16)
      : channel(std::make_shared<Channel>(request_bytes, reply_bytes, 0)),
        front(channel, signatures(), kLimit, kLimit) {}

  std::shared_ptr<WorkerPort> worker() {
    return std::make_shared<WorkerPort>(channel->worker_fds(), signatures(), kLimit);
  }
  bool submit(std::uint64_t id, const std::string &body, std::uint64_t deadline_ns = 0) {
    const auto result = front.submit(id, bytes_of(body), {}, encode, deadline_ns);
    require(static_cast<bool>(result), "the body decodes");
    return result.value().accepted;
  }
  Result<Admission> submit_tensors(std::uint64_t id, const std::vector<float> &values) {
    const std::uint64_t dims[] = {values.size()};
    const NamedTensor x{"x",
                        {DType::kFloat32, Shape(dims),
                         reinterpret_cast<const std::byte *>(values.data()),
                         values.size() * sizeof(float)}};
    return front.submit_tensors(id, {"serving_default", {&x, 1}}, encode, 0);
  }
  // Takes what there is: id to the float32 values of `y`, or to the code of an error.
  std::size_t take() {
    std::size_t count = 0;
    bool exhausted = false;
    front.begin_taking();
    while (!exhausted) {
      const auto reply = front.next_reply();
      if (!reply) {
        exhausted = front.sleep();
        continue;
      }
      ++count;
      answered[reply->request_id] += 1;
      if (reply->error) {
        errors[reply->request_id] = std::string(reply->error->code);
        continue;
      }
      const TensorView &y = reply->outputs[0].tensor;
      std::vector<float> values(y.dtype == DType::kFloat32 ? y.bytes / 4 : 0);
      if (!values.empty())
        std::memcpy(values.data(), y.data, y.bytes);
      results[reply->request_id] = std::move(values);
    }
    front.finish_taking(true);
    return count;
  }
  void take_until(std::size_t total) {
    for (std::size_t taken = 0; taken < total;) {
      wait_for_doorbell(front);
      taken += take();
    }
  }

  std::shared_ptr<Channel> channel;
  FrontPort front;
  std::shared_ptr<const EncodeOptions> encode = std::make_shared<EncodeOptions>();
  std::map<std::uint64_t, int> answered;
  std::map<std::uint64_t, std::vector<float>> results;
  std::map<std::uint64_t, std::string> errors;
};

// y = 2 x, in place.
void answer(Batch &batch) {
  batch.begin_run();
  const BatchInput &x = batch.inputs()[0];
  auto *values = const_cast<float *>(reinterpret_cast<const float *>(x.tensor.data));
  if (x.tensor.dtype == DType::kFloat32)
    for (std::uint64_t i = 0; i < x.tensor.bytes / 4; ++i)
      values[i] *= 2;
  const NamedTensor outputs[] = {{"y", x.tensor}};
  batch.reply(outputs);
}

void serve(Collector &collector) {
  for (;;) {
    const Collection collection = collector.collect(-1);
    if (collection.what == Collected::kClosed)
      return;
    if (collection.batch)
      answer(*collection.batch);
  }
}

void serve_what_waits(Collector &collector) {
  while (const auto batch = collector.collect(0).batch)
    answer(*batch);
}

std::vector<float> doubled(std::vector<float> values) {
  for (float &value : values)
    value *= 2;
  return values;
}

} // namespace

BOOST_AUTO_TEST_CASE(rows_of_a_batch_go_back_to_their_requests) {
  Link link;
  Collector collector({link.worker()});
  link.submit(1, numbers({1, 2}));
  link.submit(2, numbers({3}));
  const auto collection = collector.collect(0);
  BOOST_REQUIRE(collection.batch != nullptr);
  BOOST_TEST(collection.batch->size() == 2U);
  answer(*collection.batch);
  BOOST_TEST(link.take() == 2U);
  BOOST_TEST(link.results[1] == (std::vector<float>{2, 4}));
  BOOST_TEST(link.results[2] == (std::vector<float>{6}));
  BOOST_TEST(link.front.in_flight_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(tensors_in_memory_share_a_batch_with_decoded_ones) {
  Link link;
  Collector collector({link.worker()});
  const std::vector<float> values = {3, 4};
  link.submit(1, numbers({1, 2}));
  BOOST_TEST(link.submit_tensors(2, values).value().rows == 2U);
  const auto collection = collector.collect(0);
  BOOST_REQUIRE(collection.batch != nullptr);
  BOOST_TEST(collection.batch->size() == 2U);
  answer(*collection.batch);
  BOOST_TEST(link.take() == 2U);
  BOOST_TEST(link.results[1] == (std::vector<float>{2, 4}));
  BOOST_TEST(link.results[2] == doubled(values));
  BOOST_TEST(link.front.in_flight_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(tensors_of_every_size_arrive_in_the_ring_or_by_reference) {
  Link link;
  Collector collector({link.worker()});
  std::uint64_t id = 0;
  for (const std::size_t size : {0, 1, 15, 16, 17, 1000, 3000, 4000, 5000, 100'000}) {
    std::vector<float> values(size);
    std::iota(values.begin(), values.end(), 1.0F);
    BOOST_REQUIRE(link.submit_tensors(++id, values).value().accepted);
    while (const auto batch = collector.collect(0).batch)
      answer(*batch);
    BOOST_TEST(link.take() == 1U);
    BOOST_TEST(link.results[id] == doubled(values));
  }
  BOOST_TEST(link.front.stats().by_reference == 3U); // of a ring of 64 KiB a quarter goes inline
  BOOST_TEST(link.front.in_flight_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(tensors_that_are_refused_leave_nothing_and_are_full_once_the_ring_is) {
  Link link(4096, 4096);
  const std::vector<double> wrong = {1};
  const NamedTensor x{"x",
                      {DType::kFloat64, Shape(std::vector<std::uint64_t>{1}),
                       reinterpret_cast<const std::byte *>(wrong.data()), 8}};
  const GivenTensors given{"serving_default", {&x, 1}};
  BOOST_TEST((link.front.submit_tensors(1, given, nullptr, 0).error().code == ErrorCode::kType));
  BOOST_TEST((link.front.prepare_tensors(given).error().code == ErrorCode::kType));
  BOOST_TEST(link.front.in_flight_bytes() == 0U);
  std::uint64_t accepted = 0;
  while (link.submit_tensors(accepted, {1, 2, 3}).value().accepted)
    BOOST_REQUIRE(++accepted < 100U);
  BOOST_TEST(accepted > 1U);
  BOOST_TEST(link.front.in_flight() == accepted);
  BOOST_TEST(link.front.stats().full == 1U);
}

BOOST_AUTO_TEST_CASE(a_run_is_measured_once_and_each_of_its_requests_too) {
  Link link;
  Collector collector({link.worker()});
  for (std::uint64_t id = 1; id <= 3; ++id)
    link.submit(id, numbers({1, 2}));
  const auto collection = collector.collect(0);
  answer(*collection.batch);
  BOOST_TEST(link.take() == 3U);
  const PortMetrics &metrics = link.front.metrics();
  const RequestMetrics *measured = nullptr;
  for (std::size_t i = 0; i < metrics.signatures(); ++i)
    measured = measured == nullptr ? metrics.find(i, 0) : measured;
  BOOST_REQUIRE(measured != nullptr);
  const auto count = [](const Histogram &histogram) {
    const auto counts = histogram.read().counts;
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  };
  for (const Histogram *each :
       {&measured->receive, &measured->decode, &measured->rows, &measured->wait, &measured->run})
    BOOST_TEST(count(*each) == 3U);
  for (const Histogram *once : {&measured->batch_rows, &measured->batch_requests})
    BOOST_TEST(count(*once) == 1U);
  BOOST_TEST(measured->batch_rows.read().total == 6U);
  BOOST_TEST(measured->batch_requests.read().total == 3U);
}

BOOST_AUTO_TEST_CASE(room_of_cancelled_requests_is_free_once_the_worker_has_passed_them) {
  Link link;
  Collector collector({link.worker()});
  for (std::uint64_t id = 0; id < 20; ++id)
    link.submit(id, numbers({1}));
  for (std::uint64_t id = 0; id < 20; ++id)
    BOOST_REQUIRE(link.front.cancel(id));
  BOOST_TEST(link.front.in_flight_bytes() > 0U); // the worker may look at them yet
  BOOST_TEST((collector.collect(0).what == Collected::kTimeout));
  BOOST_TEST(link.front.in_flight_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(strings_are_stacked) {
  Link link;
  Collector collector({link.worker()});
  const std::string text = R"({"signature_name":"text","instances":["one","","three"]})";
  link.submit(1, text);
  link.submit(2, text);
  const auto collection = collector.collect(0);
  const TensorView &x = collection.batch->inputs()[0].tensor;
  BOOST_TEST(x.shape[0] == 6U);
  const char *expected[] = {"one", "", "three", "one", "", "three"};
  for (std::uint64_t i = 0; i < 6; ++i)
    BOOST_TEST(x.string_at(i) == expected[i]);
  answer(*collection.batch);
  BOOST_TEST(link.take() == 2U);
}

BOOST_AUTO_TEST_CASE(a_port_with_thousands_of_different_shapes_is_served_in_order) {
  Link link(1 << 20, 1 << 20);
  Collector collector({link.worker()});
  const std::string text = R"({"signature_name":"text","instances":["one"]})";
  for (std::uint64_t id = 0; id < 3000; ++id)
    BOOST_REQUIRE(link.submit(id, id % 2 == 0 ? text : numbers({1})));
  std::size_t served = 0;
  while (const auto batch = collector.collect(0).batch) {
    served += batch->size();
    answer(*batch);
  }
  BOOST_TEST(served == 3000U);
  BOOST_TEST(link.take() == 3000U);
}

BOOST_AUTO_TEST_CASE(a_ring_that_was_scribbled_over_is_an_error_not_a_crash) {
  std::mt19937 random(7); // NOLINT(cert-msc51-cpp): repeatable on purpose
  int broken = 0;
  int answered = 0;
  for (int round = 0; round < 400; ++round) {
    Link link(4096, 4096);
    Collector collector({link.worker()});
    link.submit(1, numbers({1, 2, 3}));
    link.submit(2, R"({"signature_name":"text","instances":["ab","c"]})");
    // Record 1 is 128 bytes: header, 12 of data and the table.
    for (int i = 0; i < 3; ++i)
      *(link.channel->requests().at(random() % 320)) = static_cast<std::byte>(random());
    try {
      while (const auto batch = collector.collect(0).batch)
        answer(*batch);
      link.take();
      answered += static_cast<int>(link.answered.size());
    } catch (const BrokenPeer &) {
      ++broken;
      BOOST_REQUIRE(collector.collect(0).what == Collected::kClosed);
    }
  }
  BOOST_TEST(broken > 10);
  BOOST_TEST(answered > 10);
}

BOOST_AUTO_TEST_CASE(replies_that_were_scribbled_over_are_errors_not_crashes) {
  std::mt19937 random(8); // NOLINT(cert-msc51-cpp): repeatable on purpose
  int wrong = 0;
  for (int round = 0; round < 400; ++round) {
    Link link(4096, 4096);
    Collector collector({link.worker()});
    link.submit(1, numbers({1, 2, 3}));
    answer(*collector.collect(0).batch);
    for (int i = 0; i < 3; ++i)
      *(link.channel->replies().at(random() % 128)) = static_cast<std::byte>(random());
    try {
      link.take();
      wrong += !link.errors.empty() || link.answered.empty();
    } catch (const BrokenPeer &) {
      ++wrong;
    }
  }
  BOOST_TEST(wrong > 10);
}

namespace {

// Requests 1 and 2, of which each may have killed a worker, and then 3, which has not, in the ring
// of the next.
void leave_suspects(Link &dead, Link &next) {
  const auto worker = dead.worker();
  Collector collector({worker}, {.max_rows = 1});
  for (const std::uint64_t id : {1, 2}) {
    dead.submit(id, numbers({static_cast<float>(id)}));
    BOOST_REQUIRE(collector.collect(0).batch != nullptr); // answered, but nobody takes it
    BOOST_REQUIRE(next.front.push_again(dead.front, id, true));
  }
  next.submit(3, numbers({3}));
}

} // namespace

BOOST_AUTO_TEST_CASE(a_request_that_may_have_killed_a_worker_has_the_next_one_to_itself) {
  Link dead;
  Link next;
  leave_suspects(dead, next);
  Collector collector({next.worker()});
  for (const std::uint64_t id : {1, 2}) {
    const auto alone = collector.collect(0);
    BOOST_REQUIRE(alone.batch != nullptr);
    BOOST_TEST(alone.batch->size() == 1U);
    BOOST_TEST((collector.collect(0).what == Collected::kTimeout));
    answer(*alone.batch);
    BOOST_TEST(next.take() == 1U);
    BOOST_TEST(next.answered.contains(id));
  }
  const auto third = collector.collect(0);
  BOOST_REQUIRE(third.batch != nullptr);
  answer(*third.batch);
  BOOST_TEST(next.take() == 1U);
}

BOOST_AUTO_TEST_CASE(a_request_that_may_have_killed_a_worker_waits_for_what_runs) {
  Link dead;
  Link next;
  next.submit(4, numbers({4}));
  Collector collector({next.worker()});
  const auto running = collector.collect(0);
  BOOST_REQUIRE(running.batch != nullptr);
  leave_suspects(dead, next);
  BOOST_TEST((collector.collect(0).what == Collected::kTimeout));
  // Split, it is one batch all the same until its last request is answered.
  const auto singles = running.batch->split();
  BOOST_TEST((collector.collect(1).what == Collected::kTimeout));
  auto waiting = std::async(std::launch::async, [&] { return collector.collect(-1); });
  answer(*singles[0]);
  const auto alone = waiting.get();
  BOOST_REQUIRE(alone.batch != nullptr);
  answer(*alone.batch);
  next.take();
  BOOST_TEST(next.answered.contains(1));
  serve_what_waits(collector);
  next.take();
  BOOST_TEST(next.answered.size() == 4U);
}

BOOST_AUTO_TEST_CASE(a_reply_that_nobody_waits_for_is_dropped) {
  Link link;
  const auto worker = link.worker();
  Collector collector({worker});
  link.submit(1, numbers({1}));
  const auto collection = collector.collect(0);
  RecordHeader stranger{.request_id = 99, .ticket = 77};
  BOOST_TEST(worker->send_error(stranger, {"internal", "", ""}, {}));
  BOOST_TEST(link.take() == 0U);
  BOOST_TEST(link.front.stats().unknown_replies == 1U);
  answer(*collection.batch);
  BOOST_TEST(link.take() == 1U);
}

BOOST_AUTO_TEST_CASE(a_long_message_is_cut_to_what_the_ring_takes) {
  Link link(4096, 4096);
  Collector collector({link.worker()});
  link.submit(1, numbers({1}));
  std::string message;
  for (int i = 0; i < 3000; ++i)
    message += "\xc3\xa5";
  collector.collect(0).batch->fail("internal", message);
  link.front.begin_taking();
  const auto reply = link.front.next_reply();
  BOOST_REQUIRE((reply && reply->error));
  BOOST_TEST(message.starts_with(reply->error->message));
  BOOST_TEST(reply->error->message.size() > 200U);
  BOOST_TEST(reply->error->message.size() % 2 == 0U);
}

namespace {

// Submits `requests` requests of 1 to 3 rows (one in fifty is large), cancels some, and takes what
// comes.
void run_front(Link &link, std::uint64_t requests, unsigned seed) {
  std::minstd_rand random(seed);
  std::map<std::uint64_t, std::vector<float>> sent;
  std::size_t cancelled = 0;
  for (std::uint64_t id = 0; id < requests;) {
    std::vector<float> values(random() % 50 == 0 ? 3000 : 1 + random() % 3);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((id * 3 + i) % 100'000);
    if (!link.submit(id, numbers(values))) {
      wait_for_doorbell(link.front);
      link.take();
      continue;
    }
    if (random() % 8 == 0 && link.front.cancel(id))
      ++cancelled;
    else
      sent[id] = std::move(values);
    ++id;
  }
  while (link.front.in_flight() != 0) {
    wait_for_doorbell(link.front);
    link.take();
  }
  require(link.front.stats().cancelled == cancelled, "what was cancelled is counted");
  require(link.answered.size() == sent.size(), "all that was not cancelled is answered");
  for (const auto &[id, values] : sent) {
    require(link.answered[id] == 1, "one answer each");
    require(link.results[id] == doubled(values), "its own answer");
  }
}

} // namespace

BOOST_AUTO_TEST_CASE(every_request_gets_its_own_answer_once_between_threads) {
  Link link(1 << 14, 1 << 13); // small: both rings are full all the time
  Collector collector({link.worker()}, {.max_rows = 16});
  std::thread worker([&] { serve(collector); });
  run_front(link, 5000, 3);
  link.front.close();
  worker.join();
}

BOOST_AUTO_TEST_CASE(two_front_ends_and_two_threads_of_one_worker_do_not_mix_answers) {
  Link a(1 << 14, 1 << 13);
  Link b(1 << 14, 1 << 13);
  Collector collector({a.worker(), b.worker()}, {.max_rows = 16});
  std::thread first([&] { serve(collector); });
  std::thread second([&] { serve(collector); });
  auto other_front = std::async(std::launch::async, [&] { run_front(b, 2000, 5); });
  run_front(a, 2000, 4);
  other_front.get();
  a.front.close();
  b.front.close();
  first.join();
  second.join();
}

// Not under ThreadSanitizer, which does not follow a fork.
#ifndef __SANITIZE_THREAD__
namespace {

pid_t start_worker(Link &link) {
  const pid_t child = ::fork();
  if (child == 0) {
    Collector collector({link.worker()}, {.max_rows = 8});
    serve(collector);
    ::_exit(0);
  }
  link.channel->close_worker_fds();
  return child;
}

} // namespace

BOOST_AUTO_TEST_CASE(killing_the_worker_loses_and_doubles_nothing) {
  std::mt19937 random(5); // NOLINT(cert-msc51-cpp): repeatable on purpose
  std::map<std::uint64_t, int> answered;
  std::map<std::uint64_t, std::vector<float>> results;
  std::uint64_t next_id = 0;
  std::unique_ptr<Link> dead;
  const auto settle = [&](Link &link) {
    for (const auto &[id, times] : link.answered)
      answered[id] += times;
    results.merge(link.results);
  };
  for (int round = 0; round < 20; ++round) {
    auto link = std::make_unique<Link>();
    if (dead)
      for (const Unanswered &left : dead->front.unanswered())
        BOOST_REQUIRE(link->front.push_again(dead->front, left.request_id, left.was_running));
    const pid_t child = start_worker(*link);
    const auto stop_at = next_id + 50 + random() % 300;
    while (next_id < stop_at) {
      std::vector<float> values(next_id % 40 == 0 ? 6000 : 2, static_cast<float>(next_id));
      if (link->submit(next_id, numbers(values)))
        ++next_id;
      else
        link->take();
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    link->take();
    settle(*link);
    dead = std::move(link);
  }
  Link last;
  for (const Unanswered &left : dead->front.unanswered())
    BOOST_REQUIRE(last.front.push_again(dead->front, left.request_id, false));
  const pid_t child = start_worker(last);
  while (last.front.in_flight() != 0)
    last.take_until(1);
  last.front.close();
  ::waitpid(child, nullptr, 0);
  settle(last);
  BOOST_TEST(answered.size() == next_id);
  for (const auto &[id, times] : answered)
    BOOST_REQUIRE(times == 1);
  for (const auto &[id, values] : results)
    BOOST_REQUIRE(values == std::vector<float>(values.size(), static_cast<float>(2 * id)));
}
#endif
