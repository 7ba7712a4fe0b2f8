// `_core.SignatureSet`: what a model's signatures declare, compiled once and shared by every
// request.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>

#include "headrace/signature.hpp"
#include "register.hpp"

namespace py = pybind11;

namespace headrace::bindings {

namespace {

// name -> (dtype name, shape or None); a dimension is an int or None.
using PySpecs = std::vector<
    std::tuple<std::string, std::string, std::optional<std::vector<std::optional<std::uint64_t>>>>>;

Signature::Specs to_specs(const PySpecs &python) {
  Signature::Specs specs;
  specs.reserve(python.size());
  for (const auto &[name, dtype_name, shape] : python) {
    const auto dtype = dtype_from_name(dtype_name);
    if (!dtype)
      throw py::value_error("unknown dtype '" + dtype_name + "' of '" + name + "'");
    TensorSpec spec{*dtype, dtype_name, shape.has_value(), {}};
    if (shape) {
      if (shape->size() > kMaxRank)
        throw py::value_error("'" + name + "' has rank " + std::to_string(shape->size()) +
                              "; the limit is " + std::to_string(kMaxRank));
      spec.dims = *shape;
    }
    specs.emplace_back(name, std::move(spec));
  }
  return specs;
}

std::shared_ptr<SignatureSet>
make_set(const std::vector<std::tuple<std::string, PySpecs, PySpecs>> &signatures,
         const std::map<std::string, std::vector<std::string>> &float_features) {
  std::vector<Signature> compiled;
  compiled.reserve(signatures.size());
  for (const auto &[name, inputs, outputs] : signatures) {
    const auto floats = float_features.find(name);
    compiled.emplace_back(name, to_specs(inputs), to_specs(outputs),
                          floats == float_features.end() ? std::vector<std::string>()
                                                         : floats->second);
  }
  return std::make_shared<SignatureSet>(std::move(compiled));
}

} // namespace

void register_signatures(py::module_ &m) {
  py::class_<SignatureSet, std::shared_ptr<SignatureSet>>(m, "SignatureSet")
      .def(py::init(&make_set), py::arg("signatures"), py::kw_only(),
           py::arg("float_features") = std::map<std::string, std::vector<std::string>>{})
      .def("names", [](const SignatureSet &set) {
        py::list names;
        for (const Signature &s : set.all())
          names.append(s.name());
        return names;
      });
  m.def(
      "numpy_name",
      [](const std::string &name) -> std::optional<std::string> {
        const auto dtype = dtype_from_name(name);
        if (!dtype)
          return std::nullopt;
        return std::string(*dtype == DType::kUnsupported ? "unsupported" : numpy_name(*dtype));
      },
      py::arg("name"));
}

} // namespace headrace::bindings
