// `_core.Channel`, `_core.FrontPort`, `_core.Draft` and `_core.Reply`: the front end's side of the
// rings.
//
// The GIL: a small body is decoded with it held, since giving it up and getting it back costs more
// than the work; a large one without it, and so are large replies encoded. What is touched
// meanwhile is the port, which belongs to one thread by contract, and bytes leased before, or
// arrays held. A Reply may go on any thread: the ledger of held records is locked.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "array.hpp"
#include "buffer.hpp"
#include "decode_options.hpp"
#include "fast_path.hpp"
#include "front_port_object.hpp"
#include "headrace/clock.hpp"
#include "headrace/front_port.hpp"
#include "register.hpp"
#include "translate_error.hpp"

namespace py = pybind11;

namespace headrace::bindings {

namespace {

/// Bodies up to this size are decoded with the GIL held: some ten microseconds of work.
constexpr std::size_t kKeepGilBelow = 32 << 10;
/// So many bytes of tensors are copied in that time.
constexpr std::uint64_t kCopyWithGilBelow = 256 << 10;
/// Replies with more bytes of tensors than this are not encoded in the event loop.
constexpr std::uint64_t kLargeReply = 64 << 10;

enum : int { kEncoded = 0, kLarge = 1, kFailed = 2 }; // second item of what take_replies gives

std::shared_ptr<Channel> make_channel(std::uint64_t request_bytes, std::uint64_t reply_bytes) {
  static std::atomic<std::uint64_t> generation{0};
  return std::make_shared<Channel>(request_bytes, reply_bytes, ++generation);
}

std::uint64_t admit(PyFrontPort &self, const Admission &admission) {
  if (admission.accepted)
    return admission.rows;
  raise("OverloadError", "no room for the request: " + std::to_string(self.port.in_flight()) +
                             " are in flight, " + std::to_string(self.port.in_flight_bytes()) +
                             " bytes; the ring has " + std::to_string(self.port.capacity_bytes()));
}

RequestNotes to_notes(std::size_t api, std::uint64_t receive_ns) {
  if (api >= kMaxApis)
    throw py::value_error("api: expected a number below " + std::to_string(kMaxApis));
  return {.api = static_cast<std::uint8_t>(api), .receive_ns = receive_ns};
}

std::uint64_t submit(PyFrontPort &self, std::uint64_t request_id, const py::object &body,
                     const OwnedDecodeOptions &decode, std::shared_ptr<EncodeOptions> encode,
                     std::uint64_t deadline_ns, std::size_t api, std::uint64_t receive_ns) {
  const RequestNotes notes = to_notes(api, receive_ns);
  const BufferLease lease(body);
  const auto run = [&] {
    return self.port.submit(request_id, lease.bytes(), decode.view(), std::move(encode),
                            deadline_ns, notes);
  };
  const Result<Admission> result = [&] {
    if (lease.bytes().size() < kKeepGilBelow)
      return run();
    const py::gil_scoped_release released; // safe: see the head of the file
    return run();
  }();
  if (!result)
    raise_error(result.error());
  return admit(self, result.value());
}

Format to_format(const std::string &name) {
  if (name != "row" && name != "columnar")
    throw py::value_error("format is '" + name + "'; expected 'row' or 'columnar'");
  return name == "row" ? Format::kRow : Format::kColumnar;
}

std::uint64_t submit_tensors(PyFrontPort &self, std::uint64_t request_id,
                             const std::string &signature, const py::object &tensors,
                             std::shared_ptr<EncodeOptions> encode, std::uint64_t deadline_ns,
                             const std::string &format, std::size_t api, std::uint64_t receive_ns) {
  const RequestNotes notes = to_notes(api, receive_ns);
  const NamedArrays arrays(tensors);
  const GivenTensors given{signature, arrays.tensors(), to_format(format)};
  const auto run = [&] {
    return self.port.submit_tensors(request_id, given, std::move(encode), deadline_ns, notes);
  };
  const Result<Admission> result = [&] {
    if (arrays.bytes() < kCopyWithGilBelow)
      return run();
    const py::gil_scoped_release released; // safe: see the head of the file
    return run();
  }();
  if (!result)
    raise_error(result.error());
  return admit(self, result.value());
}

std::unique_ptr<Draft> prepare_tensors(const PyFrontPort &self, const std::string &signature,
                                       const py::object &tensors, const std::string &format) {
  const NamedArrays arrays(tensors);
  const GivenTensors given{signature, arrays.tensors(), to_format(format)};
  Result<Draft> result = [&] {
    const py::gil_scoped_release released; // safe: only constants of the port are used
    return self.port.prepare_tensors(given);
  }();
  if (!result)
    raise_error(result.error());
  return std::make_unique<Draft>(std::move(result).value());
}

std::unique_ptr<Draft> prepare(const PyFrontPort &self, const py::object &body,
                               const OwnedDecodeOptions &decode) {
  const BufferLease lease(body);
  Result<Draft> result = [&] {
    const py::gil_scoped_release released; // safe: only constants of the port are used
    return self.port.prepare(lease.bytes(), decode.view());
  }();
  if (!result)
    raise_error(result.error());
  return std::make_unique<Draft>(std::move(result).value());
}

std::uint64_t submit_draft(PyFrontPort &self, std::uint64_t request_id, Draft &draft,
                           std::shared_ptr<EncodeOptions> encode, std::uint64_t deadline_ns,
                           std::size_t api, std::uint64_t receive_ns) {
  if (!draft.file)
    throw py::value_error("the draft was submitted before");
  const auto result = self.port.submit_draft(request_id, draft, std::move(encode), deadline_ns,
                                             to_notes(api, receive_ns));
  if (!result)
    raise_error(result.error());
  return admit(self, result.value());
}

py::object error_tuple(std::string_view code, std::string_view path, std::string_view message) {
  return py::make_tuple(to_str(code), to_str(path), to_str(message));
}

/// Whose request this is, if it goes the fast path.
FastConnection *carrier(const PyFrontPort &self, const TakenReply &taken) noexcept {
  FastConnection *connection = self.carried.find(taken.tag);
  return connection != nullptr && connection->request_id == taken.request_id ? connection : nullptr;
}

/// What Python gets of a reply, its kind and the object that goes with it; nothing where the fast
/// path has answered.
std::optional<std::pair<int, py::object>> present(PyFrontPort &self, const TakenReply &taken) {
  FastConnection *connection = carrier(self, taken);
  const bool is_small = taken.encode != nullptr && taken.data_bytes <= kLargeReply;
  std::optional<Error> error;
  if (!taken.error && is_small) {
    self.text.clear();
    const std::uint64_t began_ns = monotonic_ns();
    auto encoded = encode_answer(taken.outputs, taken.form, *taken.encode, self.text);
    if (encoded)
      taken.metrics->encode.record(monotonic_ns() - began_ns);
    else
      error = std::move(encoded).error();
    if (!error && connection != nullptr && try_answer(*connection, self.text.view()))
      return std::nullopt;
  }
  if (connection != nullptr)
    unfold(*connection);
  if (taken.error)
    return {{kFailed, error_tuple(taken.error->code, taken.error->path, taken.error->message)}};
  if (error)
    return {{kFailed, error_tuple(name_of(error->code), error->path, error->message)}};
  if (!is_small)
    return {{kLarge, py::cast(self.port.hold(taken))}};
  return {{kEncoded, py::bytes(self.text.data(), self.text.size())}};
}

void append(py::list &replies, PyFrontPort &self, const TakenReply &taken, bool timings) {
  const auto presented = present(self, taken);
  if (!presented)
    return;
  const auto &[kind, payload] = *presented;
  if (timings)
    replies.append(py::make_tuple(taken.request_id, kind, payload, taken.wait_ns, taken.run_ns));
  else
    replies.append(py::make_tuple(taken.request_id, kind, payload));
}

py::list take_replies(PyFrontPort &self, std::size_t limit, bool timings) {
  py::list replies;
  if (!self.port.is_open()) // a loop may still have the doorbell's call scheduled
    return replies;
  bool exhausted = false;
  std::size_t taken_count = 0;
  self.port.begin_taking();
  try {
    while (taken_count < limit && !exhausted) {
      if (const auto taken = self.port.next_reply()) {
        append(replies, self, *taken, timings);
        taken_count += 1;
      } else {
        exhausted = self.port.sleep();
      }
    }
  } catch (const BrokenPeer &) {
    if (replies.empty()) // else those that came before it are delivered, and it is met again
      throw;
  }
  self.port.finish_taking(exhausted);
  return replies;
}

void push_again(PyFrontPort &self, PyFrontPort &dead, std::uint64_t request_id, bool alone) {
  try {
    const bool accepted = self.port.push_again(dead.port, request_id, alone);
    admit(self, {accepted, 0});
  } catch (const std::out_of_range &missing) {
    throw py::key_error(missing.what());
  }
}

py::list unanswered(const PyFrontPort &self) {
  py::list left;
  for (const Unanswered &request : self.port.unanswered())
    left.append(py::make_tuple(request.request_id, request.was_running, request.deaths));
  return left;
}

py::dict front_stats(const PyFrontPort &self) {
  const FrontStats &stats = self.port.stats();
  py::dict counts;
  counts["submitted"] = stats.submitted;
  counts["by_reference"] = stats.by_reference;
  counts["full"] = stats.full;
  counts["replies"] = stats.replies;
  counts["errors"] = stats.errors;
  counts["cancelled"] = stats.cancelled;
  counts["unknown_replies"] = stats.unknown_replies;
  counts["wait_ns"] = stats.wait_ns;
  counts["run_ns"] = stats.run_ns;
  return counts;
}

py::list to_list(std::span<const std::uint64_t> values) {
  py::list list;
  for (const std::uint64_t value : values)
    list.append(value);
  return list;
}

py::tuple to_tuple(const Histogram &histogram) {
  const Distribution read = histogram.read();
  return py::make_tuple(to_list(read.counts), read.total);
}

py::dict to_dict(const RequestMetrics &metrics) {
  py::dict read;
  read["receive"] = to_tuple(metrics.receive);
  read["decode"] = to_tuple(metrics.decode);
  read["wait"] = to_tuple(metrics.wait);
  read["run"] = to_tuple(metrics.run);
  read["encode"] = to_tuple(metrics.encode);
  read["rows"] = to_tuple(metrics.rows);
  read["batch_rows"] = to_tuple(metrics.batch_rows);
  read["batch_requests"] = to_tuple(metrics.batch_requests);
  return read;
}

py::list front_metrics(const PyFrontPort &self) {
  const PortMetrics &metrics = self.port.metrics();
  py::list used;
  for (std::size_t signature = 0; signature < metrics.signatures(); ++signature)
    for (std::uint8_t api = 0; api < kMaxApis; ++api)
      if (const RequestMetrics *of = metrics.find(signature, api))
        used.append(py::make_tuple(to_str(self.port.signatures().all()[signature].name()), api,
                                   to_dict(*of)));
  return used;
}

py::bytes encode_held(const HeldReply &reply, std::shared_ptr<EncodeOptions> options) {
  const EncodeOptions *chosen = options ? options.get() : reply.encode_options();
  if (chosen == nullptr)
    throw py::value_error("the request came without encode options; give them here");
  ByteBuffer text;
  const std::uint64_t began_ns = monotonic_ns();
  const auto encoded = [&] {
    const py::gil_scoped_release released; // safe: nothing of Python's is touched
    return encode_answer(reply.outputs(), reply.form(), *chosen, text);
  }();
  if (!encoded)
    raise_error(encoded.error(), "EncodeError");
  reply.encode_times().record(monotonic_ns() - began_ns);
  return {text.data(), text.size()};
}

/// What lies in the ring is copied, so that an array which somebody keeps cannot hold up the ring;
/// a memfd is lent.
py::dict held_tensors(const py::object &self) {
  const auto &reply = self.cast<const HeldReply &>();
  const py::handle owner = reply.is_in_ring() ? py::handle() : py::handle(self);
  py::dict arrays;
  for (const NamedTensor &output : reply.outputs())
    arrays[to_str(output.name)] = to_array(output.tensor, owner);
  return arrays;
}

void register_port(py::module_ &m) {
  py::class_<PyFrontPort>(m, "FrontPort")
      .def(py::init<std::shared_ptr<Channel>, std::shared_ptr<SignatureSet>, std::uint64_t,
                    std::uint64_t>(),
           py::arg("channel"), py::arg("signatures"), py::kw_only(), py::arg("max_payload_bytes"),
           py::arg("max_reply_bytes"))
      .def("submit", &submit, py::arg("request_id"), py::arg("body"), py::kw_only(),
           py::arg("decode"), py::arg("encode").none(true), py::arg("deadline_ns"),
           py::arg("api") = 0, py::arg("receive_ns") = 0)
      .def("prepare", &prepare, py::arg("body"), py::kw_only(), py::arg("decode"))
      .def("submit_tensors", &submit_tensors, py::arg("request_id"), py::arg("signature"),
           py::arg("tensors"), py::kw_only(), py::arg("encode").none(true), py::arg("deadline_ns"),
           py::arg("format") = "row", py::arg("api") = 0, py::arg("receive_ns") = 0)
      .def("prepare_tensors", &prepare_tensors, py::arg("signature"), py::arg("tensors"),
           py::kw_only(), py::arg("format") = "row")
      .def("submit_draft", &submit_draft, py::arg("request_id"), py::arg("draft"), py::kw_only(),
           py::arg("encode").none(true), py::arg("deadline_ns"), py::arg("api") = 0,
           py::arg("receive_ns") = 0)
      .def("take_replies", &take_replies, py::arg("limit") = 256, py::kw_only(),
           py::arg("timings") = false)
      .def(
          "cancel", [](PyFrontPort &self, std::uint64_t id) { return self.port.cancel(id); },
          py::arg("request_id"))
      .def(
          "carried",
          [](const PyFrontPort &self, std::uint64_t deadline_ns) {
            return self.carried.connections(deadline_ns);
          },
          py::arg("deadline_ns") = std::numeric_limits<std::uint64_t>::max())
      .def_property_readonly("carried_count", [](const PyFrontPort &s) { return s.carried.size(); })
      .def("unanswered", &unanswered)
      .def("push_again", &push_again, py::arg("dead"), py::arg("request_id"), py::kw_only(),
           py::arg("alone"))
      .def("stats", &front_stats)
      .def("metrics", &front_metrics)
      .def(
          "continue_metrics",
          [](PyFrontPort &self, const PyFrontPort &dead) { self.port.continue_metrics(dead.port); },
          py::arg("dead"))
      .def("close",
           [](PyFrontPort &self) {
             self.carried.clear(); // a cycle that Python's collector could not see
             self.port.close();
           })
      .def_property_readonly("doorbell", [](const PyFrontPort &s) { return s.port.doorbell(); })
      .def_property_readonly("in_flight", [](const PyFrontPort &s) { return s.port.in_flight(); })
      .def_property_readonly("in_flight_rows",
                             [](const PyFrontPort &s) { return s.port.in_flight_rows(); })
      .def_property_readonly("in_flight_bytes",
                             [](PyFrontPort &s) { return s.port.in_flight_bytes(); })
      .def_property_readonly("capacity_bytes",
                             [](const PyFrontPort &s) { return s.port.capacity_bytes(); })
      .def_property_readonly("max_inline_bytes",
                             [](const PyFrontPort &s) { return s.port.max_inline_bytes(); })
      .def_property_readonly("running_since_ns",
                             [](const PyFrontPort &s) { return s.port.running_since_ns(); });
}

} // namespace

void register_front(py::module_ &m) {
  register_translations();
  py::class_<Channel, std::shared_ptr<Channel>>(m, "Channel")
      .def(py::init(&make_channel), py::kw_only(), py::arg("request_bytes") = 8 << 20,
           py::arg("reply_bytes") = 8 << 20)
      .def("worker_fds", &Channel::worker_fds)
      .def("close_worker_fds", &Channel::close_worker_fds)
      .def("close", &Channel::close);
  py::class_<Draft>(m, "Draft")
      .def_readonly("rows", &Draft::rows)
      .def_readonly("nbytes", &Draft::data_bytes);
  py::class_<HeldReply>(m, "Reply")
      .def("encode", &encode_held, py::arg("options") = std::shared_ptr<EncodeOptions>())
      .def("tensors", [](const py::object &self) { return held_tensors(self); })
      .def(
          "record_encode_ns",
          [](const HeldReply &reply, std::uint64_t ns) { reply.encode_times().record(ns); },
          py::arg("elapsed_ns"))
      .def_property_readonly("nbytes", &HeldReply::data_bytes)
      .def_property_readonly("format", [](const HeldReply &reply) {
        return reply.form().format == Format::kRow ? "row" : "columnar";
      });
  register_port(m);
  py::class_<Histogram, std::shared_ptr<Histogram>>(m, "TimeHistogram")
      .def(py::init([] { return std::make_shared<Histogram>(time_bounds_ns()); }))
      .def("record", &Histogram::record, py::arg("ns"))
      .def("read", [](const Histogram &self) { return to_tuple(self); });
  m.def("time_bounds_ns", [] { return to_list(time_bounds_ns()); });
  m.def("size_bounds", [] { return to_list(size_bounds()); });
}

} // namespace headrace::bindings
