#include "headrace/tensor_request.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "declared_shape.hpp"
#include "json_place.hpp"
#include "name_hints.hpp"
#include "request_forms.hpp"

namespace headrace {

namespace {

/// Most that the extents other than 0 of a tensor without elements may multiply to. Its extents
/// cost the sender nothing, but their number of rows counts as in flight, and as JSON each is a
/// `[]`.
constexpr std::uint64_t kMaxEmptyExtents = 1 << 20;

Error refusal(ErrorCode code, std::string message, const std::string &hint = {}) {
  if (!hint.empty())
    message += " (" + hint + ")";
  return {code, kNoOffset, "", std::move(message)};
}

Error unknown_signature(std::string_view name, const SignatureSet &signatures) {
  std::vector<std::string_view> names;
  for (const Signature &each : signatures.all())
    names.emplace_back(each.name());
  return refusal(ErrorCode::kUnknownSignature,
                 "Serving signature name: \"" + excerpt(name) + "\" not found in signature def",
                 suggest(name, names));
}

std::string dtype_of(const NamedTensor &given) {
  return given.tensor.dtype == DType::kUnsupported ? excerpt(given.dtype_name)
                                                   : std::string(numpy_name(given.tensor.dtype));
}

std::optional<Error> dtype_defect(const std::string &input, const TensorSpec &spec,
                                  const NamedTensor &given) {
  if (spec.dtype == DType::kUnsupported)
    return refusal(ErrorCode::kUnsupportedDtype,
                   "Input '" + input + "' takes " + spec.dtype_name + ", which cannot be sent");
  if (given.tensor.dtype == spec.dtype)
    return std::nullopt;
  return refusal(ErrorCode::kType, "Input '" + input + "' has dtype " + dtype_of(given) +
                                       ", expected " + std::string(numpy_name(spec.dtype)));
}

std::optional<Error> emptiness_defect(const std::string &input, const Shape &shape) {
  const auto dims = shape.dims();
  if (std::find(dims.begin(), dims.end(), 0U) == dims.end())
    return std::nullopt;
  std::uint64_t product = 1;
  for (const std::uint64_t extent : dims)
    if (extent > kMaxEmptyExtents ||
        (product *= std::max<std::uint64_t>(extent, 1)) > kMaxEmptyExtents)
      return refusal(ErrorCode::kShape, "Input '" + input + "' has shape " + to_text(shape) +
                                            ", expected extents that multiply to " +
                                            std::to_string(kMaxEmptyExtents) +
                                            " at most, since there are no elements");
  return std::nullopt;
}

// A C++ bool of any other byte is undefined behaviour, in the model's code as in ours.
std::optional<Error> bool_defect(const std::string &input, const TensorView &tensor) {
  if (tensor.dtype != DType::kBool)
    return std::nullopt;
  const std::span bytes(tensor.data, tensor.bytes);
  const auto is_wrong = [](std::byte byte) { return byte > std::byte{1}; };
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), is_wrong);
  if (wrong == bytes.end())
    return std::nullopt;
  return refusal(ErrorCode::kRange, "Input '" + input + "' has the byte " +
                                        std::to_string(std::to_integer<unsigned>(*wrong)) +
                                        " at element " + std::to_string(wrong - bytes.begin()) +
                                        ", expected a bool, 0 or 1");
}

std::optional<Error> input_defect(const std::string &input, const TensorSpec &spec,
                                  const NamedTensor &given) {
  if (auto defect = dtype_defect(input, spec, given))
    return defect;
  if (auto defect = shape_defect(input, spec, given.tensor.shape))
    return refusal(ErrorCode::kShape, *std::move(defect));
  if (auto defect = emptiness_defect(input, given.tensor.shape))
    return defect;
  return bool_defect(input, given.tensor);
}

// Extent 0 of all of them; 0: they share none.
std::uint64_t shared_rows(std::span<const NamedTensor *const> inputs) noexcept {
  const auto first = [](const NamedTensor *input) {
    return input->tensor.shape.rank() == 0 ? 0 : input->tensor.shape[0];
  };
  const std::uint64_t rows = first(inputs.front());
  const auto same = [&](const NamedTensor *input) { return first(input) == rows; };
  return std::all_of(inputs.begin(), inputs.end(), same) ? rows : 0;
}

} // namespace

TensorRequest::TensorRequest(const GivenTensors &given, const SignatureSet &signatures)
    : checked_(check(given, signatures)) {}

Result<PredictRequest> TensorRequest::check(const GivenTensors &given,
                                            const SignatureSet &signatures) {
  const auto index = signatures.find(given.signature);
  if (!index)
    return unknown_signature(given.signature, signatures);
  const Signature &signature = signatures.all()[*index];
  if (signature.inputs().empty())
    return refusal(ErrorCode::kStructure,
                   "Failed to get input map for signature: " + excerpt(given.signature));
  inputs_.assign(signature.inputs().size(), nullptr);
  for (const NamedTensor &tensor : given.tensors) {
    const auto place = signature.find_input(tensor.name);
    if (!place)
      return refusal(ErrorCode::kUnknownInput, "No input is named " + excerpt(tensor.name),
                     suggest(tensor.name, input_names(signature)));
    if (inputs_[*place] != nullptr)
      return refusal(ErrorCode::kDuplicateInput,
                     "Input '" + excerpt(tensor.name) + "' is given twice");
    inputs_[*place] = &tensor;
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto &[name, spec] = signature.inputs()[i];
    if (inputs_[i] == nullptr)
      return refusal(ErrorCode::kMissingInput, "Missing named input: " + name,
                     "the inputs are " + join_names(input_names(signature)));
    if (auto defect = input_defect(name, spec, *inputs_[i]))
      return *std::move(defect);
  }
  PredictRequest request;
  request.format = given.format;
  request.signature_name = signature.name();
  request.signature_index = *index;
  request.rows = shared_rows(inputs_);
  return request;
}

std::uint64_t TensorRequest::bound() const noexcept {
  std::uint64_t bytes = 0;
  if (checked_)
    for (const NamedTensor *input : inputs_)
      bytes += input->tensor.bytes;
  return bytes;
}

Result<PredictRequest> TensorRequest::decode(TensorSink &sink) const {
  if (!checked_)
    return checked_;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const TensorView &tensor = inputs_[i]->tensor;
    if (tensor.bytes != 0) {
      const auto room = sink.grow(i, 0, tensor.bytes);
      if (room.empty())
        return refusal(ErrorCode::kTooLarge, "Input '" + std::string(inputs_[i]->name) +
                                                 "' needs more memory than a request may take");
      std::memcpy(room.data(), tensor.data, tensor.bytes);
    }
    sink.finish(i, tensor.dtype, tensor.shape, tensor.bytes);
  }
  return checked_;
}

} // namespace headrace
