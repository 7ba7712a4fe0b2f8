#include "examples_signature.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace headrace {

namespace {

constexpr std::string_view kInputs = "inputs";
constexpr std::size_t kMaxListed = 16;

bool has_output(const Signature &signature, std::string_view name) {
  const auto &outputs = signature.outputs();
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](const auto &output) { return output.first == name; });
}

std::optional<std::string> outputs_defect(const Signature &signature, Method method) {
  const std::size_t count = signature.outputs().size();
  if (method == Method::kRegress) {
    if (count != 1)
      return "Expected one output Tensor. Found " + std::to_string(count);
    if (!has_output(signature, "outputs"))
      return "No regression outputs found in SignatureDef: " + signature.name();
    return std::nullopt;
  }
  if (count != 1 && count != 2)
    return "Expected one or two output Tensors, found " + std::to_string(count);
  if (!has_output(signature, "classes") && !has_output(signature, "scores"))
    return "Expected classification signature outputs to contain at least one of \"classes\" or "
           "\"scores\". Signature was: " +
           signature.name();
  return std::nullopt;
}

} // namespace

std::optional<std::string> examples_defect(const Signature &signature, Method method) {
  const std::string_view kind = method == Method::kRegress ? "regression" : "classification";
  const auto &inputs = signature.inputs();
  if (inputs.size() != 1)
    return "Expected one input Tensor. Found " + std::to_string(inputs.size());
  if (inputs[0].first != kInputs)
    return "No " + std::string(kind) + " inputs found in SignatureDef: " + signature.name();
  if (const DType dtype = inputs[0].second.dtype; dtype != DType::kString)
    return "Input 'inputs' of signature '" + signature.name() + "' takes " +
           std::string(tensorflow_name(dtype)) + ", not the strings that Examples are";
  return outputs_defect(signature, method);
}

std::string examples_signatures_hint(const SignatureSet &signatures, Method method) {
  std::string hint = method == Method::kRegress
                         ? "regress needs the one input 'inputs' and the one output 'outputs'"
                         : "classify needs the one input 'inputs' and the outputs 'classes', "
                           "'scores' or both";
  std::size_t found = 0;
  for (const Signature &each : signatures.all()) {
    if (examples_defect(each, method) || ++found > kMaxListed)
      continue;
    hint.append(found == 1 ? "; signatures that have them: '" : ", '")
        .append(each.name())
        .append("'");
  }
  return found == 0 ? hint.append("; no signature of this model has them") : hint;
}

} // namespace headrace
