// `_core.decode_predict` and `_core.decode_examples`: a request body to NumPy arrays.
//
// GIL: arguments are taken and results are made with it. In between it is released for bodies large
// enough to pay for that; the decoder then works on the leased bytes, on immutable signatures and
// on memory of its own, none of which Python can change or free meanwhile.
#include "headrace/json_decode.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>

#include "array.hpp"
#include "buffer.hpp"
#include "decode_options.hpp"
#include "headrace/heap_sink.hpp"
#include "headrace/json_examples.hpp"
#include "register.hpp"
#include "translate_error.hpp"

namespace py = pybind11;

namespace headrace::bindings {

namespace {

// Below this the hand-over of the GIL costs more than the decoding.
constexpr std::size_t kReleaseAbove = 4096;

// The array takes the tensor's memory over: a capsule that only frees is its base.
py::object to_array(HeapSink::Tensor &tensor) {
  if (tensor.dtype == DType::kUnsupported) // has no elements, else decoding would have failed
    tensor.dtype = DType::kString;
  if (tensor.dtype == DType::kString || tensor.data == nullptr)
    return bindings::to_array(tensor.view());
  const auto owner = py::reinterpret_steal<py::object>(
      PyCapsule_New(tensor.data.get(), nullptr, [](PyObject *capsule) {
        FreeAligned()(static_cast<std::byte *>(PyCapsule_GetPointer(capsule, nullptr)));
      }));
  if (!owner)
    throw py::error_already_set();
  const TensorView view = tensor.view();
  tensor.data.release();
  return bindings::to_array(view, owner);
}

py::dict to_arrays(const Signature &signature, HeapSink &sink) {
  py::dict arrays;
  for (std::size_t i = 0; i < signature.inputs().size(); ++i)
    arrays[py::str(signature.inputs()[i].first)] = to_array(sink.tensors()[i]);
  return arrays;
}

py::dict to_extra(const PredictRequest &request) {
  py::dict extra;
  for (const auto &[name, raw] : request.extra)
    if (const py::str key(name); !extra.contains(key)) // the first wins, as everywhere
      extra[key] = py::str(raw);
  return extra;
}

py::tuple decode(const py::object &body, const SignatureSet &signatures,
                 const OwnedDecodeOptions &options) {
  const BufferLease lease(body);
  HeapSink sink(0);
  std::optional<Result<PredictRequest>> result;
  {
    std::optional<py::gil_scoped_release> released; // safe: see the head of this file
    if (lease.bytes().size() > kReleaseAbove)
      released.emplace();
    result.emplace(decode_predict(lease.bytes(), signatures, options.view(), sink));
  }
  if (!*result)
    raise_error(result->error());
  const PredictRequest &request = result->value();
  static const py::handle row = PyUnicode_InternFromString("row");
  static const py::handle columnar = PyUnicode_InternFromString("columnar");
  return py::make_tuple(request.format == Format::kRow ? row : columnar, request.signature_name,
                        to_arrays(signatures.all()[request.signature_index], sink),
                        to_extra(request), request.rows);
}

void check(const py::object &body, const OwnedDecodeOptions &options) {
  const BufferLease lease(body);
  std::optional<Result<std::monostate>> result;
  {
    std::optional<py::gil_scoped_release> released; // safe: see the head of this file
    if (lease.bytes().size() > kReleaseAbove)
      released.emplace();
    result.emplace(check_predict(lease.bytes(), options.view()));
  }
  if (!*result)
    raise_error(result->error());
}

Result<ExamplesRequest> read_examples(const BufferLease &lease, const SignatureSet *signatures,
                                      const OwnedDecodeOptions &options) {
  std::optional<py::gil_scoped_release> released; // safe: see the head of this file
  if (lease.bytes().size() > kReleaseAbove)
    released.emplace();
  return decode_examples(lease.bytes(), signatures, options.view());
}

py::tuple decode_examples_body(const py::object &body, const SignatureSet *signatures,
                               const OwnedDecodeOptions &options, std::uint64_t max_bytes) {
  const BufferLease lease(body);
  const Result<ExamplesRequest> result = read_examples(lease, signatures, options);
  if (!result)
    raise_error(result.error());
  const ExamplesRequest &request = result.value();
  HeapSink sink(1, max_bytes);
  if (!request.write(sink, 0))
    raise_error({ErrorCode::kTooLarge, kNoOffset, "examples",
                 "The examples, each with the context, need " +
                     std::to_string(request.tensor_bytes()) + " bytes, which is more than " +
                     std::to_string(max_bytes)});
  return py::make_tuple(request.signature_name, to_array(sink.tensors()[0]));
}

void check_examples(const py::object &body, const OwnedDecodeOptions &options) {
  const BufferLease lease(body);
  const Result<ExamplesRequest> result = read_examples(lease, nullptr, options);
  if (!result)
    raise_error(result.error());
}

std::uint64_t bound(const py::object &body, const SignatureSet &signatures) {
  const BufferLease lease(body);
  return decoded_bytes_bound(lease.bytes(), signatures);
}

Method method_of(const std::string &name) {
  if (name == "predict")
    return Method::kPredict;
  if (name == "classify")
    return Method::kClassify;
  if (name == "regress")
    return Method::kRegress;
  throw py::value_error("method is '" + name + "'; expected one of predict, classify, regress");
}

std::shared_ptr<OwnedDecodeOptions> make_options(std::string default_signature, bool check_shapes,
                                                 bool integral_floats, bool bare_list,
                                                 bool finite_only, bool keep_extra,
                                                 std::size_t max_depth, const std::string &method) {
  return std::make_shared<OwnedDecodeOptions>(std::move(default_signature), check_shapes,
                                              integral_floats, bare_list, finite_only, keep_extra,
                                              max_depth, method_of(method));
}

} // namespace

void register_decode(py::module_ &m) {
  py::class_<OwnedDecodeOptions, std::shared_ptr<OwnedDecodeOptions>>(m, "DecodeOptions")
      .def(py::init(&make_options), py::kw_only(), py::arg("default_signature") = "serving_default",
           py::arg("check_shapes") = false, py::arg("integral_floats") = false,
           py::arg("bare_list") = false, py::arg("finite_only") = false,
           py::arg("keep_extra") = false, py::arg("max_depth") = 10'000,
           py::arg("method") = "predict");
  m.def("decode_predict", &decode, py::arg("body"), py::arg("signatures"), py::arg("options"));
  m.def("check_predict", &check, py::arg("body"), py::arg("options"));
  m.def("decode_examples", &decode_examples_body, py::arg("body"), py::arg("signatures").none(true),
        py::arg("options"), py::arg("max_bytes"));
  m.def("check_examples", &check_examples, py::arg("body"), py::arg("options"));
  m.def("decoded_bytes_bound", &bound, py::arg("body"), py::arg("signatures"));
}

} // namespace headrace::bindings
