// `_core.WorkerPort`, `_core.Collector`, `_core.Batch` and `_core.exit_when_closed`: the worker's
// side of the rings.
//
// The GIL: it is given up while a collector waits and gathers, and while a batch is answered, since
// a full reply ring is waited for. What is touched meanwhile is the core's, and arrays that are
// held here.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "array.hpp"
#include "headrace/clock.hpp"
#include "headrace/collector.hpp"
#include "register.hpp"
#include "translate_error.hpp"

namespace py = pybind11;

namespace headrace::bindings {

namespace {

constexpr int kExitStatusOfOrphans = 0;

std::shared_ptr<WorkerPort> make_port(const std::vector<int> &fds,
                                      std::shared_ptr<SignatureSet> signatures,
                                      std::uint64_t max_reply_bytes) {
  return std::make_shared<WorkerPort>(fds, std::move(signatures), max_reply_bytes);
}

BatchSettings make_settings(std::uint64_t max_rows) { return {.max_rows = max_rows}; }

py::dict worker_stats(const WorkerPort &port) {
  py::dict counts;
  counts["taken"] = port.stats().taken;
  counts["cancelled"] = port.stats().cancelled;
  counts["expired"] = port.stats().expired;
  counts["malformed"] = port.stats().malformed;
  return counts;
}

/// The core's batch and the arrays that Python sees of it.
struct PyBatch {
  explicit PyBatch(std::unique_ptr<Batch> of) noexcept : batch(std::move(of)) {}
  PyBatch(const PyBatch &) = delete;
  PyBatch &operator=(const PyBatch &) = delete;
  ~PyBatch() {
    if (batch->is_answered())
      return;
    const py::gil_scoped_release released; // safe: what is left to do is the core's
    batch.reset();
  }

  std::unique_ptr<Batch> batch;
  py::object arrays = py::none(); // dict, once it was asked for
};

void require_unanswered(const PyBatch &self) {
  if (self.batch->is_answered())
    throw std::logic_error("the batch was answered or split before");
}

py::capsule capsule_of(const std::shared_ptr<const void> &owner) {
  return {new std::shared_ptr<const void>(owner),
          [](void *held) { delete static_cast<std::shared_ptr<const void> *>(held); }};
}

py::object inputs_of(PyBatch &self) {
  require_unanswered(self);
  if (self.arrays.is_none()) {
    py::dict arrays;
    for (const BatchInput &input : self.batch->inputs())
      arrays[to_str(self.batch->signature().inputs()[input.index].first)] =
          to_array(input.tensor, capsule_of(input.owner));
    self.arrays = std::move(arrays);
    self.batch->drop_inputs(); // the arrays hold them now
    self.batch->begin_run();
  }
  return self.arrays;
}

std::string shape_text(const Shape &shape) {
  std::string text = "(";
  for (const std::uint64_t extent : shape.dims())
    text += std::to_string(extent) + ",";
  return text + ")";
}

void reply(PyBatch &self, const py::object &mapping) {
  require_unanswered(self);
  const NamedArrays outputs(mapping);
  for (const NamedTensor &output : outputs.tensors())
    if (output.tensor.dtype == DType::kUnsupported)
      throw py::value_error("output '" + std::string(output.name) + "' has dtype " +
                            std::string(output.dtype_name) + ", which has no JSON form");
  if (const NamedTensor *wrong = self.batch->find_unsplittable(outputs.tensors()))
    throw py::value_error("output '" + std::string(wrong->name) + "' has shape " +
                          shape_text(wrong->tensor.shape) + "; the first extent of a batch of " +
                          std::to_string(self.batch->rows()) + " rows must be that");
  {
    const py::gil_scoped_release released; // safe: `outputs` holds the arrays
    self.batch->reply(outputs.tensors());
  }
  self.arrays = py::none();
}

void fail(PyBatch &self, const std::string &code, const std::string &message) {
  require_unanswered(self);
  {
    const py::gil_scoped_release released; // safe: nothing of Python's is touched
    self.batch->fail(code, message);
  }
  self.arrays = py::none();
}

py::list split(PyBatch &self) {
  require_unanswered(self);
  self.arrays = py::none();
  std::vector<std::unique_ptr<Batch>> singles = [&] {
    const py::gil_scoped_release released; // safe: gathering touches the core alone
    return self.batch->split();
  }();
  py::list batches;
  for (auto &single : singles)
    batches.append(py::cast(std::make_unique<PyBatch>(std::move(single))));
  return batches;
}

/// Goes on after signals whose handlers do not raise.
Collection collect_patiently(Collector &collector, int timeout_ms) {
  const std::uint64_t began = monotonic_ns();
  for (int left_ms = timeout_ms;;) {
    Collection collection = [&] {
      const py::gil_scoped_release released; // safe: the collector touches the core alone
      return collector.collect(left_ms);
    }();
    if (collection.what != Collected::kInterrupted)
      return collection;
    if (PyErr_CheckSignals() != 0)
      throw py::error_already_set();
    if (timeout_ms > 0)
      left_ms = std::max(0, timeout_ms - static_cast<int>((monotonic_ns() - began) / 1'000'000));
  }
}

std::unique_ptr<PyBatch> collect(Collector &collector, int timeout_ms) {
  Collection collection = collect_patiently(collector, timeout_ms);
  if (collection.what == Collected::kClosed) {
    PyErr_SetString(PyExc_EOFError, "every front end has closed");
    throw py::error_already_set();
  }
  return collection.batch ? std::make_unique<PyBatch>(std::move(collection.batch)) : nullptr;
}

} // namespace

void register_worker(py::module_ &m) {
  py::class_<BatchSettings>(m, "BatchSettings")
      .def(py::init(&make_settings), py::kw_only(), py::arg("max_rows") = BatchSettings{}.max_rows);
  py::class_<WorkerPort, std::shared_ptr<WorkerPort>>(m, "WorkerPort")
      .def(py::init(&make_port), py::arg("fds"), py::arg("signatures"), py::kw_only(),
           py::arg("max_reply_bytes"))
      .def("stats", &worker_stats);
  py::class_<Collector>(m, "Collector")
      .def(py::init<std::vector<std::shared_ptr<WorkerPort>>, BatchSettings>(), py::arg("ports"),
           py::arg("settings") = BatchSettings{})
      .def("collect", &collect, py::kw_only(), py::arg("timeout_ms") = -1);
  py::class_<PyBatch>(m, "Batch")
      .def_property_readonly("signature",
                             [](const PyBatch &self) { return self.batch->signature().name(); })
      .def_property_readonly("size", [](const PyBatch &self) { return self.batch->size(); })
      .def_property_readonly("rows", [](const PyBatch &self) { return self.batch->rows(); })
      .def_property_readonly("inputs", &inputs_of)
      .def("reply", &reply, py::arg("outputs"))
      .def("fail", &fail, py::arg("code"), py::arg("message"))
      .def("split", &split);
  m.def(
      "exit_when_closed", [](int fd) { exit_when_closed(fd, kExitStatusOfOrphans); },
      py::arg("fd"));
}

} // namespace headrace::bindings
