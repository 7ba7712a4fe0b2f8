// `_core.FastConnection` and `_core.Traffic`. Plain C types, since pybind11's general way of
// calling costs as much as all that they do.
#include <pybind11/pybind11.h>
#include <structmember.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <exception>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "fast_path.hpp"
#include "headrace/clock.hpp"
#include "register.hpp"

namespace py = pybind11;

namespace headrace::bindings {

namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kLineEnd = "\r\n";
constexpr std::size_t kMaxSizeDigits = 20;
constexpr std::uint64_t kNoDeadline = std::numeric_limits<std::uint64_t>::max();
/// Ids of carried requests; those of the general path count from 1 on.
constexpr std::uint64_t kCarriedIds = std::uint64_t{1} << 63;

struct Names {
  PyObject *receive = PyUnicode_InternFromString("receive");
  PyObject *unfold = PyUnicode_InternFromString("unfold");
};

const Names &names() {
  static const Names interned;
  return interned;
}

FastConnection *as_connection(PyObject *self) { return reinterpret_cast<FastConnection *>(self); }

std::uint64_t next_id() noexcept {
  static std::uint64_t last = kCarriedIds; // the GIL guards it
  return ++last;
}

// The request is no longer this path's.
void let_go(FastConnection &connection) noexcept {
  const FastRoute *route = std::exchange(connection.route, nullptr);
  connection.request_id = 0;
  if (route != nullptr)
    route->port->carried.remove(std::exchange(connection.tag, 0));
  Py_CLEAR(connection.route_object); // lets a version go that has been unloaded
}

// True: the bytes are a request, and it is in the ring.
bool try_carry(FastConnection &connection, std::size_t count) {
  FastPath &path = *connection.path;
  const std::string_view data = path.received(count);
  const std::size_t head_end = data.find(kHeadEnd);
  if (head_end == std::string_view::npos)
    return false;
  const std::size_t body = head_end + kHeadEnd.size();
  const FastPath::Known *known = path.find(data.substr(0, body));
  if (known == nullptr || known->route->body_bytes != count - body)
    return false;
  const FastRoute &route = *known->route;
  FrontPort &port = route.port->port;
  if (port.in_flight_rows() >= route.max_rows || port.in_flight_bytes() >= route.max_bytes)
    return false;
  const std::uint64_t id = next_id();
  const std::uint64_t began_ns = monotonic_ns();
  const std::uint64_t deadline_ns = route.timeout_ns == 0 ? 0 : began_ns + route.timeout_ns;
  const std::uint64_t tag = route.port->carried.add(&connection);
  const auto admission =
      port.submit(id, std::as_bytes(std::span(data.substr(body))), route.decode->view(),
                  route.encode, deadline_ns, {.api = route.api, .tag = tag});
  if (!admission || !admission.value().accepted) { // the general path says what is wrong
    route.port->carried.remove(tag);
    return false;
  }
  connection.route = &route;
  connection.route_object = Py_NewRef(known->object.ptr());
  connection.request_id = id;
  connection.tag = tag;
  connection.began_ns = began_ns;
  connection.deadline_ns = deadline_ns == 0 ? kNoDeadline : deadline_ns;
  path.traffic().requests += 1;
  return true;
}

PyObject *buffer_updated(PyObject *self, PyObject *count) {
  const Py_ssize_t size = PyLong_AsSsize_t(count);
  if (size < 0)
    return PyErr_Occurred() != nullptr ? nullptr : Py_NewRef(Py_None);
  FastConnection &connection = *as_connection(self);
  connection.path->traffic().bytes_received += static_cast<unsigned long long>(size);
  if (connection.is_quiet != 0 && connection.request_id == 0) {
    try {
      if (try_carry(connection, static_cast<std::size_t>(size)))
        Py_RETURN_NONE;
    } catch (const std::exception &) { // the general path meets it, too, and reports it
    }
  }
  return PyObject_CallMethodOneArg(self, names().receive, count);
}

PyObject *get_buffer(PyObject *self, PyObject *) { return Py_XNewRef(as_connection(self)->window); }

PyObject *take_carried(PyObject *self, PyObject *) {
  FastConnection &connection = *as_connection(self);
  if (connection.request_id == 0)
    Py_RETURN_NONE;
  const FastRoute &route = *connection.route;
  PyObject *taken = Py_BuildValue("OOKK", route.head.ptr(), route.adopt.ptr(),
                                  static_cast<unsigned long long>(connection.request_id),
                                  static_cast<unsigned long long>(connection.began_ns));
  if (taken != nullptr)
    let_go(connection);
  return taken;
}

PyObject *make(PyTypeObject *type, PyObject *, PyObject *) { return type->tp_alloc(type, 0); }

int initialise(PyObject *self, PyObject *args, PyObject *) {
  PyObject *path = nullptr;
  PyObject *window = nullptr;
  if (PyArg_ParseTuple(args, "OO", &path, &window) == 0)
    return -1;
  FastConnection &connection = *as_connection(self);
  try {
    connection.path = py::handle(path).cast<FastPath *>();
  } catch (const py::cast_error &) {
    PyErr_SetString(PyExc_TypeError, "path: expected a FastPath");
    return -1;
  }
  Py_XSETREF(connection.path_object, Py_NewRef(path));
  Py_XSETREF(connection.window, Py_NewRef(window));
  connection.since = connection.path->now;
  return 0;
}

int traverse(PyObject *self, visitproc visit, void *arg) {
  const FastConnection &connection = *as_connection(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(connection.path_object);
  Py_VISIT(connection.window);
  Py_VISIT(connection.write);
  Py_VISIT(connection.route_object);
  return 0;
}

int clear(PyObject *self) {
  FastConnection &connection = *as_connection(self);
  let_go(connection);
  Py_CLEAR(connection.window);
  Py_CLEAR(connection.write);
  return 0;
}

void destroy(PyObject *self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  Py_CLEAR(as_connection(self)->path_object);
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject *is_carrying(PyObject *self, void *) {
  return PyBool_FromLong(as_connection(self)->request_id != 0);
}

PyMethodDef connection_methods[] = {
    {"get_buffer", get_buffer, METH_O, nullptr},
    {"buffer_updated", buffer_updated, METH_O, nullptr},
    {"take_carried", take_carried, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef connection_members[] = {
    {"window", T_OBJECT_EX, offsetof(FastConnection, window), 0, nullptr},
    {"write", T_OBJECT, offsetof(FastConnection, write), 0, nullptr},
    {"since", T_DOUBLE, offsetof(FastConnection, since), 0, nullptr},
    {"is_quiet", T_BOOL, offsetof(FastConnection, is_quiet), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef connection_properties[] = {
    {"is_carrying", is_carrying, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot connection_slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(make)},
    {Py_tp_init, reinterpret_cast<void *>(initialise)},
    {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(clear)},
    {Py_tp_methods, connection_methods},
    {Py_tp_members, connection_members},
    {Py_tp_getset, connection_properties},
    {0, nullptr},
};

PyType_Spec connection_spec = {
    "headrace._core.FastConnection",
    sizeof(FastConnection),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    connection_slots,
};

PyMemberDef traffic_members[] = {
    {"requests", T_ULONGLONG, offsetof(Traffic, requests), 0, nullptr},
    {"bytes_received", T_ULONGLONG, offsetof(Traffic, bytes_received), 0, nullptr},
    {"bytes_sent", T_ULONGLONG, offsetof(Traffic, bytes_sent), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot traffic_slots[] = {{Py_tp_members, traffic_members}, {0, nullptr}};

PyType_Spec traffic_spec = {
    "headrace._core.Traffic",
    sizeof(Traffic),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    traffic_slots,
};

void add_type(py::module_ &m, const char *name, PyType_Spec &spec) {
  PyObject *type = PyType_FromSpec(&spec);
  if (type == nullptr)
    throw py::error_already_set();
  m.add_object(name, py::reinterpret_steal<py::object>(type));
}

char *put(char *out, std::string_view text) noexcept {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

// Null: a Python error is set.
PyObject *message(const FastPath &path, const FastRoute &route, std::string_view body) {
  char digits[kMaxSizeDigits];
  const auto end = std::to_chars(digits, digits + sizeof digits, body.size()).ptr;
  const std::string_view size(digits, static_cast<std::size_t>(end - digits));
  const std::size_t whole = path.answer_start.size() + size.size() + 2 * kLineEnd.size() +
                            route.headers.size() + body.size();
  PyObject *bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(whole));
  if (bytes == nullptr)
    return nullptr;
  char *out = put(PyBytes_AS_STRING(bytes), path.answer_start);
  out = put(put(out, size), kLineEnd);
  out = put(put(out, route.headers), kLineEnd);
  put(out, body);
  return bytes;
}

} // namespace

bool try_answer(FastConnection &connection, std::string_view body) {
  FastPath &path = *connection.path;
  if (body.size() > connection.route->max_answer_bytes || path.answer_start.empty() ||
      connection.write == nullptr || connection.write == Py_None)
    return false;
  const auto bytes = py::reinterpret_steal<py::object>(message(path, *connection.route, body));
  if (!bytes) {
    PyErr_Clear();
    return false;
  }
  connection.route->latencies->record(monotonic_ns() - connection.began_ns);
  const py::object kept = py::reinterpret_borrow<py::object>(
      reinterpret_cast<PyObject *>(&connection)); // the port's reference goes
  let_go(connection);
  connection.since = path.now;
  path.traffic().bytes_sent += static_cast<unsigned long long>(PyBytes_GET_SIZE(bytes.ptr()));
  const py::object write = py::reinterpret_borrow<py::object>(connection.write);
  // May call back, and so change the connection.
  PyObject *written = PyObject_CallOneArg(write.ptr(), bytes.ptr());
  if (written == nullptr)
    PyErr_WriteUnraisable(kept.ptr());
  Py_XDECREF(written);
  return true;
}

void unfold(FastConnection &connection) {
  auto *const self = reinterpret_cast<PyObject *>(&connection);
  const py::object kept = py::reinterpret_borrow<py::object>(self);
  PyObject *done = PyObject_CallMethodNoArgs(self, names().unfold);
  if (done == nullptr)
    PyErr_WriteUnraisable(self);
  Py_XDECREF(done);
}

void register_fast_connection(py::module_ &m) {
  add_type(m, "Traffic", traffic_spec);
  add_type(m, "FastConnection", connection_spec);
}

} // namespace headrace::bindings
