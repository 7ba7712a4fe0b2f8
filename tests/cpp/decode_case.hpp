// The decode vectors of tests/vectors, as the C++ suites read them. Format:
// tests/vectors/README.md.
#pragma once

#include <simdjson.h>

#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "headrace/base64.hpp"
#include "headrace/heap_sink.hpp"
#include "headrace/json_decode.hpp"

namespace headrace::test {

using Json = simdjson::dom::element;

struct ExpectedTensor {
  std::vector<std::uint64_t> shape;
  std::vector<std::string> values; ///< each in the vectors' spelling
};

struct Expectation {
  bool error = false;
  bool unimplemented = false; ///< the columnar form of an unsupported dtype
  std::vector<std::string> contains;
  std::optional<std::string> code;
  std::optional<std::uint64_t> offset;
  std::optional<std::string> path;
  std::string format;
  std::map<std::string, ExpectedTensor> tensors;
};

struct DecodeCase {
  std::string id;
  std::string signature = "serving_default";
  std::vector<std::pair<std::string, TensorSpec>> inputs;
  std::string body;
  DecodeOptions options;
  Expectation expect;

  SignatureSet signatures() const {
    std::vector<Signature> all;
    all.emplace_back(signature, Signature::Specs(inputs.begin(), inputs.end()), Signature::Specs());
    return SignatureSet(std::move(all));
  }
};

inline std::string text(const Json &json) { return std::string(std::string_view(json)); }

inline std::string from_base64(std::string_view coded) {
  std::string bytes(base64_bound(coded.size()), '\0');
  const auto result = decode_base64(coded, std::as_writable_bytes(std::span(bytes)));
  if (!result)
    throw std::runtime_error("a vector's base64 is broken");
  bytes.resize(result.bytes);
  return bytes;
}

inline TensorSpec spec_of(const Json &json) {
  TensorSpec spec;
  simdjson::dom::array shape;
  const bool bare = json.is_string();
  spec.dtype_name = text(bare ? json : json["dtype"].value());
  spec.dtype = dtype_from_name(spec.dtype_name).value();
  if (!bare && json["shape"].get(shape) == simdjson::SUCCESS) {
    spec.known_rank = true;
    for (const Json extent : shape)
      spec.dims.push_back(extent.is_null()
                              ? std::nullopt
                              : std::optional<std::uint64_t>(extent.get_uint64().value()));
  }
  return spec;
}

inline ExpectedTensor tensor_of(const Json &json) {
  ExpectedTensor tensor;
  for (const Json extent : json["shape"].get_array())
    tensor.shape.push_back(extent.get_uint64().value());
  for (const Json value : json["values"].get_array())
    tensor.values.push_back(value.is_string() ? text(value) : simdjson::minify(value));
  return tensor;
}

inline Expectation expectation_of(const Json &json) {
  Expectation expect;
  Json found;
  if (json["error"].get(found) == simdjson::SUCCESS) {
    expect.error = true;
    expect.unimplemented = found.get_int64().value() == 501;
    if (json["contains"].get(found) == simdjson::SUCCESS)
      for (const Json part : found.get_array())
        expect.contains.push_back(text(part));
    if (json["code"].get(found) == simdjson::SUCCESS)
      expect.code = text(found);
    if (json["offset"].get(found) == simdjson::SUCCESS)
      expect.offset = found.get_uint64().value();
    if (json["path"].get(found) == simdjson::SUCCESS)
      expect.path = text(found);
    return expect;
  }
  expect.format = text(json["format"].value());
  for (const auto [name, tensor] : json["tensors"].get_object())
    expect.tensors.emplace(name, tensor_of(tensor));
  return expect;
}

inline DecodeOptions options_of(const Json &json) {
  DecodeOptions options;
  Json found;
  if (json["options"].get(found) != simdjson::SUCCESS)
    return options;
  for (const auto [name, value] : found.get_object()) {
    if (name == "max_depth")
      options.max_depth = value.get_uint64().value();
    else if (name == "check_shapes")
      options.check_shapes = true;
    else if (name == "integral_floats")
      options.integral_floats = true;
    else if (name == "bare_list")
      options.bare_list = true;
    else if (name == "finite_only")
      options.finite_only = true;
    else
      throw std::runtime_error("unknown option in a vector");
  }
  return options;
}

/// The lines of a file of vectors, `deviations` (id to expectation) put in place of what they hold.
inline std::vector<DecodeCase> load_cases(const std::string &file) {
  const std::string folder = HEADRACE_TEST_VECTORS "/";
  simdjson::dom::parser parser;
  simdjson::dom::parser deviation_parser;
  const Json deviations = deviation_parser.load(folder + "decode-deviations.json").value();
  std::ifstream lines(folder + file);
  if (!lines)
    throw std::runtime_error("no file " + folder + file);
  std::vector<DecodeCase> cases;
  for (std::string line; std::getline(lines, line);) {
    const Json json = parser.parse(line).value();
    DecodeCase one;
    Json found;
    one.id = text(json["id"].value());
    if (json["signature"].get(found) == simdjson::SUCCESS)
      one.signature = text(found);
    for (const auto [name, spec] : json["inputs"].get_object())
      one.inputs.emplace_back(name, spec_of(spec));
    one.body = json["body_b64"].get(found) == simdjson::SUCCESS
                   ? from_base64(std::string_view(found))
                   : text(json["body"].value());
    one.options = options_of(json);
    one.expect = expectation_of(json["expect"].value());
    if (deviations["cases"][one.id]["expect"].get(found) == simdjson::SUCCESS)
      one.expect = expectation_of(found);
    cases.push_back(std::move(one));
  }
  return cases;
}

/// One element in the vectors' spelling: floats as big-endian hex, strings as base64.
inline std::string spell(const TensorView &view, std::uint64_t i) {
  const std::byte *at = view.data + i * item_size(view.dtype);
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  const auto hex = [](std::uint64_t bits, int digits) {
    char buffer[20];
    std::snprintf(buffer, sizeof buffer, "%0*llx", digits, static_cast<unsigned long long>(bits));
    return std::string(buffer);
  };
  switch (view.dtype) {
  case DType::kBool:
    return read(std::uint8_t{}) != 0 ? "true" : "false";
  case DType::kInt8:
    return std::to_string(read(std::int8_t{}));
  case DType::kInt16:
    return std::to_string(read(std::int16_t{}));
  case DType::kInt32:
    return std::to_string(read(std::int32_t{}));
  case DType::kInt64:
    return std::to_string(read(std::int64_t{}));
  case DType::kUint8:
    return std::to_string(read(std::uint8_t{}));
  case DType::kUint16:
    return std::to_string(read(std::uint16_t{}));
  case DType::kUint32:
    return std::to_string(read(std::uint32_t{}));
  case DType::kUint64:
    return std::to_string(read(std::uint64_t{}));
  case DType::kFloat16:
  case DType::kBfloat16:
    return hex(read(std::uint16_t{}), 4);
  case DType::kFloat32:
    return hex(read(std::uint32_t{}), 8);
  case DType::kFloat64:
    return hex(read(std::uint64_t{}), 16);
  case DType::kString:
    return std::string(view.string_at(i));
  case DType::kUnsupported:
    break;
  }
  return "";
}

/// Do two spellings mean the same value? NaNs are equal whatever their bits.
inline bool same_value(DType dtype, const std::string &found, const std::string &expected) {
  if (dtype == DType::kString)
    return found == from_base64(expected);
  const auto is_nan = [&](const std::string &hex) {
    const std::uint64_t bits = std::stoull(hex, nullptr, 16);
    if (dtype == DType::kFloat64)
      return (bits & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000;
    if (dtype == DType::kFloat32)
      return (bits & 0x7FFFFFFF) > 0x7F800000;
    return (bits & 0x7FFF) > (dtype == DType::kFloat16 ? 0x7C00U : 0x7F80U);
  };
  const bool is_float = dtype == DType::kFloat16 || dtype == DType::kBfloat16 ||
                        dtype == DType::kFloat32 || dtype == DType::kFloat64;
  return found == expected || (is_float && is_nan(found) && is_nan(expected));
}

/// What is wrong with the answer to a case; empty: nothing.
inline std::string judge(const DecodeCase &one, const SignatureSet &signatures,
                         const Result<PredictRequest> &result, HeapSink &sink) {
  const Expectation &expect = one.expect;
  if (!result) {
    const Error &error = result.error();
    if (!expect.error)
      return "unexpected error: " + error.message;
    for (const std::string &part : expect.contains)
      if (error.message.find(part) == std::string::npos)
        return "'" + part + "' is not in: " + error.message;
    if (expect.unimplemented && error.code != ErrorCode::kUnsupportedDtype)
      return "not an unsupported dtype: " + error.message;
    if (expect.code && *expect.code != name_of(error.code))
      return "code " + std::string(name_of(error.code)) + ": " + error.message;
    if (expect.offset && *expect.offset != error.offset)
      return "offset " + std::to_string(error.offset) + ": " + error.message;
    if (expect.path && *expect.path != error.path)
      return "path " + error.path + ": " + error.message;
    return error.offset > one.body.size() ? "an error without a place: " + error.message : "";
  }
  if (expect.error)
    return "no error";
  if ((result.value().format == Format::kRow ? "row" : "columnar") != expect.format)
    return "format";
  const Signature &signature = signatures.all()[result.value().signature_index];
  for (std::size_t i = 0; i < signature.inputs().size(); ++i) {
    const ExpectedTensor &tensor = expect.tensors.at(signature.inputs()[i].first);
    const TensorView view = sink.tensors().at(i).view();
    if (!(view.shape == Shape(tensor.shape)) || view.shape.elements() != tensor.values.size())
      return "shape of " + signature.inputs()[i].first;
    if (reinterpret_cast<std::uintptr_t>(view.data) % kTensorAlignment != 0)
      return "alignment";
    for (std::uint64_t k = 0; k < view.shape.elements(); ++k)
      if (!same_value(view.dtype, spell(view, k), tensor.values[k]))
        return "element " + std::to_string(k) + ": " + spell(view, k) + " for " + tensor.values[k];
  }
  return "";
}

} // namespace headrace::test
