// `_core.EncodeOptions` and the encoders.
//
// The GIL: arguments become C++ values first, with the arrays' memory kept by `ArrayTensor`; then
// it is released while text is written, unless there is so little to write that getting the GIL
// back could cost more than the work. While it is released only tensors and a ByteBuffer are
// touched, nothing that belongs to Python.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "array.hpp"
#include "headrace/json_encode.hpp"
#include "register.hpp"
#include "translate_error.hpp"

namespace py = pybind11;

namespace headrace::bindings {

namespace {

/// Room for text that each thread keeps from call to call, at most: memory that is mapped and in
/// the cache already is worth half of the time of writing simple values.
constexpr std::size_t kKeptText = std::size_t{1} << 20;

/// Less than this many bytes of tensors are written with the GIL held: some microseconds of work.
constexpr std::uint64_t kKeepGilBelow = 4096;

template <class Enum> using Name = std::pair<const char *, Enum>;

constexpr Name<NonFinite> kNonFinites[] = {{"token", NonFinite::kToken},
                                           {"null", NonFinite::kNull},
                                           {"string", NonFinite::kString},
                                           {"error", NonFinite::kError}};
constexpr Name<bool> kInvalidUtf8s[] = {{"error", false}, {"b64", true}};

template <class Enum, std::size_t kCount>
Enum value_of(const Name<Enum> (&names)[kCount], const std::string &name, const char *what) {
  std::string known;
  for (const auto &[text, value] : names) {
    if (name == text)
      return value;
    known.append(known.empty() ? "" : ", ").append(text);
  }
  throw py::value_error(std::string(what) + " is '" + name + "'; expected one of " + known);
}

template <class Enum, std::size_t kCount>
std::string name_in(const Name<Enum> (&names)[kCount], Enum wanted) {
  for (const auto &[text, value] : names)
    if (value == wanted)
      return text;
  throw std::logic_error("a value without a name");
}

EncodeOptions make_options(bool pretty, const std::string &non_finite, bool int64_as_string,
                           const std::string &invalid_utf8, std::vector<std::string> outputs) {
  return {pretty, value_of(kNonFinites, non_finite, "non_finite"), int64_as_string,
          value_of(kInvalidUtf8s, invalid_utf8, "invalid_utf8"), std::move(outputs)};
}

Format format_of(const std::string &name) {
  if (name == "row")
    return Format::kRow;
  if (name == "columnar")
    return Format::kColumnar;
  raise_error({ErrorCode::kStructure, kNoOffset, "",
               "Invalid request format '" + name + "'; expected 'row' or 'columnar'"},
              "EncodeError");
}

py::bytes to_bytes(const ByteBuffer &text) { return py::bytes(text.data(), text.size()); }

/// Runs `encode(ByteBuffer &)` on `work` bytes of tensors and gives its text to Python.
template <class Encode> py::bytes run(std::uint64_t work, Encode encode) {
  thread_local ByteBuffer kept; // nothing that runs while it is in use calls back into Python
  ByteBuffer text = std::move(kept);
  text.clear();
  const Result<std::monostate> result = [&]() -> Result<std::monostate> {
    if (work < kKeepGilBelow)
      return encode(text);
    const py::gil_scoped_release released; // safe: see the head of the file
    return encode(text);
  }();
  if (!result)
    raise_error(result.error(), "EncodeError");
  py::bytes bytes = to_bytes(text);
  if (text.capacity() <= kKeptText)
    kept = std::move(text);
  return bytes;
}

py::bytes encode_predict_arrays(const py::dict &outputs, const std::string &format_name,
                                const EncodeOptions &options) {
  const Format format = format_of(format_name);
  const NamedArrays arrays(outputs);
  return run(arrays.bytes(), [&](ByteBuffer &text) {
    return encode_predict(arrays.tensors(), format, options, text);
  });
}

py::bytes encode_classify_arrays(const py::object &labels, const py::object &scores,
                                 const std::vector<std::uint64_t> &counts,
                                 const EncodeOptions &options) {
  std::uint64_t work = 0;
  const auto take = [&work](const py::object &array) -> std::optional<ArrayTensor> {
    if (array.is_none())
      return std::nullopt;
    ArrayTensor tensor(array);
    work += tensor.view().bytes;
    return tensor;
  };
  const auto held_labels = take(labels);
  const auto held_scores = take(scores);
  const auto view_of = [](const std::optional<ArrayTensor> &held) {
    return held ? std::optional(held->view()) : std::nullopt;
  };
  const Classifications results{counts, view_of(held_labels), view_of(held_scores)};
  return run(work, [&](ByteBuffer &text) { return encode_classify(results, options, text); });
}

py::bytes encode_regress_array(const py::object &values, const EncodeOptions &options) {
  const ArrayTensor held(values);
  return run(held.view().bytes,
             [&](ByteBuffer &text) { return encode_regress(held.view(), options, text); });
}

py::bytes encode_error(const std::string &message) {
  ByteBuffer text;
  write_error_body(message, text);
  return to_bytes(text);
}

} // namespace

void register_encode(py::module_ &m) {
  py::class_<EncodeOptions, std::shared_ptr<EncodeOptions>>(m, "EncodeOptions")
      .def(py::init(&make_options), py::kw_only(), py::arg("pretty") = false,
           py::arg("non_finite") = "token", py::arg("int64_as_string") = false,
           py::arg("invalid_utf8") = "error", py::arg("outputs") = std::vector<std::string>{})
      .def_readonly("pretty", &EncodeOptions::pretty)
      .def_readonly("int64_as_string", &EncodeOptions::int64_as_string)
      .def_readonly("outputs", &EncodeOptions::outputs)
      .def_property_readonly(
          "non_finite", [](const EncodeOptions &o) { return name_in(kNonFinites, o.non_finite); })
      .def_property_readonly("invalid_utf8", [](const EncodeOptions &o) {
        return name_in(kInvalidUtf8s, o.invalid_utf8_as_b64);
      });
  m.def("encode_predict", &encode_predict_arrays, py::arg("outputs"), py::arg("format"),
        py::arg("options"));
  m.def("encode_classify", &encode_classify_arrays, py::arg("labels"), py::arg("scores"),
        py::arg("counts"), py::arg("options"));
  m.def("encode_regress", &encode_regress_array, py::arg("values"), py::arg("options"));
  m.def("encode_error", &encode_error, py::arg("message"));
}

} // namespace headrace::bindings
