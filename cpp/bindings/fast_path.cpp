#include "fast_path.hpp"

#include <string>
#include <utility>

#include "register.hpp"

namespace py = pybind11;

namespace headrace::bindings {

namespace {

// As many as heads are remembered by the general path (HeadCache), for the same reason.
constexpr std::size_t kMaxRoutes = 1024;
constexpr std::size_t kFirstTags = 64;

} // namespace

std::uint64_t CarriedRequests::add(FastConnection *connection) {
  if (free_.empty())
    grow();
  const std::size_t slot = free_.back();
  free_.pop_back();
  slots_[slot] = connection;
  Py_INCREF(reinterpret_cast<PyObject *>(connection));
  return slot + 1;
}

void CarriedRequests::grow() {
  const std::size_t old = slots_.size();
  const std::size_t size = old == 0 ? kFirstTags : 2 * old;
  free_.reserve(size); // so that `remove` cannot fail
  slots_.resize(size);
  for (std::size_t slot = size; slot > old; --slot)
    free_.push_back(slot - 1);
}

FastConnection *CarriedRequests::find(std::uint64_t tag) const noexcept {
  return tag == 0 || tag > slots_.size() ? nullptr : slots_[tag - 1];
}

void CarriedRequests::remove(std::uint64_t tag) noexcept {
  FastConnection *connection = find(tag);
  if (connection == nullptr)
    return;
  slots_[tag - 1] = nullptr;
  free_.push_back(tag - 1);
  Py_DECREF(reinterpret_cast<PyObject *>(connection));
}

void CarriedRequests::clear() noexcept {
  for (std::uint64_t tag = 1; tag <= slots_.size(); ++tag)
    remove(tag);
}

py::list CarriedRequests::connections(std::uint64_t deadline_ns) const {
  py::list found;
  for (FastConnection *connection : slots_)
    if (connection != nullptr && connection->deadline_ns <= deadline_ns)
      found.append(py::handle(reinterpret_cast<PyObject *>(connection)));
  return found;
}

FastPath::FastPath(const py::object &receive_memory, py::object traffic)
    : traffic_(std::move(traffic)) {
  if (PyObject_GetBuffer(receive_memory.ptr(), &memory_, PyBUF_WRITABLE) != 0)
    throw py::error_already_set();
}

FastPath::~FastPath() { PyBuffer_Release(&memory_); }

void FastPath::add(std::string head, const py::object &route) {
  if (routes_.size() >= kMaxRoutes)
    routes_.clear();
  routes_.insert_or_assign(std::move(head), Known{route, route.cast<const FastRoute *>()});
}

void FastPath::clear() noexcept {
  routes_.clear();
  generation += 1;
}

const FastPath::Known *FastPath::find(std::string_view head) const noexcept {
  const auto found = routes_.find(head);
  return found == routes_.end() ? nullptr : &found->second;
}

namespace {

std::unique_ptr<FastRoute>
make_route(py::object head, py::object adopt, py::object port,
           std::shared_ptr<OwnedDecodeOptions> decode, std::shared_ptr<EncodeOptions> encode,
           std::shared_ptr<Histogram> latencies, std::string headers, std::uint64_t timeout_ns,
           std::pair<std::uint64_t, std::uint64_t> max_in_flight, std::size_t body_bytes,
           std::size_t max_answer_bytes, std::size_t api) {
  if (api >= kMaxApis)
    throw py::value_error("api: expected a number below " + std::to_string(kMaxApis));
  auto *const of = port.cast<PyFrontPort *>();
  return std::unique_ptr<FastRoute>(new FastRoute{
      std::move(head), std::move(adopt), std::move(port), of, std::move(decode), std::move(encode),
      std::move(latencies), std::move(headers), timeout_ns, max_in_flight.first,
      max_in_flight.second, body_bytes, max_answer_bytes, static_cast<std::uint8_t>(api)});
}

} // namespace

void register_fast_path(py::module_ &m) {
  register_fast_connection(m); // before those whose signatures name its types
  py::class_<FastRoute>(m, "FastRoute")
      .def(py::init(&make_route), py::kw_only(), py::arg("head"), py::arg("adopt"), py::arg("port"),
           py::arg("decode").none(false), py::arg("encode").none(false),
           py::arg("latencies").none(false), py::arg("headers"), py::arg("timeout_ns"),
           py::arg("max_in_flight"), py::arg("body_bytes"), py::arg("max_answer_bytes"),
           py::arg("api"));
  py::class_<FastPath>(m, "FastPath")
      .def(py::init<const py::object &, py::object>(), py::arg("receive_memory"),
           py::arg("traffic"))
      .def(
          "add",
          [](FastPath &self, const py::bytes &head, const py::object &route) {
            self.add(std::string(head), route);
          },
          py::arg("head"), py::arg("route"))
      .def("clear", &FastPath::clear)
      .def_property(
          "answer_start", [](const FastPath &self) { return py::bytes(self.answer_start); },
          [](FastPath &self, const py::bytes &start) { self.answer_start = std::string(start); })
      .def_readwrite("now", &FastPath::now)
      .def_readonly("generation", &FastPath::generation);
}

} // namespace headrace::bindings
