#include "headrace/answer.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

namespace {

Error structure_error(std::string message) {
  return {ErrorCode::kStructure, kNoOffset, "results", std::move(message)};
}

std::string to_text(const Shape &shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape.dims())
    text.append(text.size() == 1 ? "" : ",").append(std::to_string(extent));
  return text.append("]");
}

std::optional<TensorView> find_output(std::span<const NamedTensor> outputs, std::string_view name) {
  for (const NamedTensor &output : outputs)
    if (output.name == name)
      return output.tensor;
  return std::nullopt;
}

// What is wrong with `classes` or `scores`, in TF Serving's words.
std::optional<Error> classes_defect(std::string_view name, const TensorView &tensor, DType dtype,
                                    std::uint64_t examples) {
  const Shape &shape = tensor.shape;
  const std::string what(name);
  if (shape.rank() != 2)
    return structure_error("Expected Tensor shape: [batch_size num_classes] but got " +
                           to_text(shape) + " (output \"" + what + "\")");
  if (tensor.dtype != dtype)
    return structure_error("Expected " + what + " Tensor of DT_" +
                           (dtype == DType::kString ? "STRING" : "FLOAT") +
                           ". Got: " + std::string(tensorflow_name(tensor.dtype)));
  if (shape[0] != examples)
    return structure_error("Expected " + what + " output batch size of " +
                           std::to_string(examples) + ". Got: " + std::to_string(shape[0]));
  return std::nullopt;
}

Result<std::monostate> answer_classify(std::span<const NamedTensor> outputs, std::uint64_t examples,
                                       const EncodeOptions &options, ByteBuffer &out) {
  const auto classes = find_output(outputs, "classes");
  const auto scores = find_output(outputs, "scores");
  if (!classes && !scores)
    return structure_error("The model gave neither \"classes\" nor \"scores\"");
  if (classes)
    if (auto defect = classes_defect("classes", *classes, DType::kString, examples))
      return *std::move(defect);
  if (scores)
    if (auto defect = classes_defect("scores", *scores, DType::kFloat32, examples))
      return *std::move(defect);
  if (classes && scores && classes->shape[1] != scores->shape[1])
    return structure_error("Tensors class and score should match in dim_size(1). Got " +
                           std::to_string(classes->shape[1]) + " vs. " +
                           std::to_string(scores->shape[1]));
  const std::vector<std::uint64_t> counts(examples, (classes ? *classes : *scores).shape[1]);
  return encode_classify({counts, classes, scores}, options, out);
}

Result<std::monostate> answer_regress(std::span<const NamedTensor> outputs, std::uint64_t examples,
                                      const EncodeOptions &options, ByteBuffer &out) {
  const auto values = find_output(outputs, "outputs");
  if (!values)
    return structure_error("The model did not give \"outputs\"");
  const Shape &shape = values->shape;
  if (shape.rank() != 1 && !(shape.rank() == 2 && shape[1] == 1))
    return structure_error(
        "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got " +
        to_text(shape));
  if (shape[0] != examples)
    return structure_error("Expected output batch size to be " + std::to_string(examples) +
                           " but got " + std::to_string(shape[0]));
  return encode_regress(*values, options, out);
}

} // namespace

Result<std::monostate> encode_answer(std::span<const NamedTensor> outputs, const AnswerForm &form,
                                     const EncodeOptions &options, ByteBuffer &out) {
  switch (form.method) {
  case Method::kClassify:
    return answer_classify(outputs, form.rows, options, out);
  case Method::kRegress:
    return answer_regress(outputs, form.rows, options, out);
  case Method::kPredict:
    break;
  }
  return encode_predict(outputs, form.format, options, out);
}

} // namespace headrace
