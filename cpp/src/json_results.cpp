// The answers of the classify and regress methods. Spec: tfserving-rest section 13.
#include <numeric>
#include <utility>

#include "headrace/json_encode.hpp"
#include "json_layout.hpp"
#include "output_defect.hpp"
#include "tensor_writer.hpp"

namespace headrace {

namespace {

Error structure_error(std::string message) {
  return {ErrorCode::kStructure, kNoOffset, "results", std::move(message)};
}

/// `results[example][class][member]`, the place of element `element` of all examples' classes in
/// turn.
std::string class_path(std::span<const std::uint64_t> counts, std::uint64_t element, int member) {
  std::size_t example = 0;
  for (; element >= counts[example]; ++example)
    element -= counts[example];
  return "results[" + std::to_string(example) + "][" + std::to_string(element) + "][" +
         std::to_string(member) + "]";
}

struct Column {
  std::optional<NamedTensor> tensor;
  std::string_view absent; ///< what is written for each element of a column that is not there
  DType dtype;
};

/// Labels and scores under the names that a classify signature gives them.
std::pair<Column, Column> columns_of(const Classifications &results) {
  const auto named = [](std::string_view name, const std::optional<TensorView> &tensor) {
    return tensor ? std::optional<NamedTensor>({name, *tensor}) : std::nullopt;
  };
  return {{named("classes", results.labels), "\"\"", DType::kString},
          {named("scores", results.scores), "0.0", DType::kFloat32}};
}

Result<std::monostate> check_column(const Column &column, int member,
                                    std::span<const std::uint64_t> counts,
                                    const EncodeOptions &options) {
  if (!column.tensor)
    return std::monostate{};
  const NamedTensor &named = *column.tensor;
  const auto total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  if (named.tensor.dtype != column.dtype || named.tensor.shape.elements() != total)
    return structure_error("Expected " + std::to_string(total) + " elements of type " +
                           std::string(tensorflow_name(column.dtype)) + " in output " +
                           quoted(named.name) + ", found " +
                           std::to_string(named.tensor.shape.elements()) + " of type " +
                           std::string(tensorflow_name(named.tensor.dtype)));
  if (auto defect = find_defect(named, options))
    return Error{defect->code, kNoOffset,
                 defect->element ? class_path(counts, *defect->element, member) : "results",
                 std::move(defect->message)};
  return std::monostate{};
}

/// Writes single elements of a column, or what stands for them.
class ColumnWriter {
public:
  ColumnWriter(const Column &column, const EncodeOptions &options, JsonLayout &layout,
               ByteBuffer &out)
      : absent_(column.absent), layout_(layout), out_(out) {
    if (column.tensor)
      writer_.emplace(*column.tensor, options, layout, out);
  }
  void write(std::uint64_t element) {
    if (writer_)
      return writer_->write_element(element);
    layout_.before_value();
    out_.append(absent_);
  }

private:
  std::optional<TensorWriter> writer_;
  std::string_view absent_;
  JsonLayout &layout_;
  ByteBuffer &out_;
};

} // namespace

Result<std::monostate> encode_classify(const Classifications &results, const EncodeOptions &options,
                                       ByteBuffer &out) {
  if (results.counts.empty())
    return structure_error("Cannot convert empty ClassificationResults to JSON");
  const auto [labels, scores] = columns_of(results);
  if (auto checked = check_column(labels, 0, results.counts, options); !checked)
    return checked;
  if (auto checked = check_column(scores, 1, results.counts, options); !checked)
    return checked;

  JsonLayout layout(options.pretty, out);
  ColumnWriter label_writer(labels, options, layout, out);
  ColumnWriter score_writer(scores, options, layout, out);
  layout.begin_object();
  layout.key("\"results\"");
  layout.begin_array();
  layout.set_single_line(true);
  std::uint64_t element = 0;
  for (const std::uint64_t count : results.counts) {
    layout.begin_array();
    for (std::uint64_t i = 0; i < count; ++i, ++element) {
      layout.begin_array();
      label_writer.write(element);
      score_writer.write(element);
      layout.end_array();
    }
    layout.end_array();
  }
  layout.set_single_line(false);
  layout.end_array();
  layout.end_object();
  return std::monostate{};
}

Result<std::monostate> encode_regress(const TensorView &values, const EncodeOptions &options,
                                      ByteBuffer &out) {
  const Shape &shape = values.shape;
  const bool column = shape.rank() == 2 && shape[1] == 1;
  if (values.dtype != DType::kFloat32 || (shape.rank() != 1 && !column))
    return structure_error(
        "Expected type float and shape [n] or [n,1] of a regression's output, found type " +
        std::string(tensorflow_name(values.dtype)) + " of rank " + std::to_string(shape.rank()));
  if (shape[0] == 0)
    return structure_error("Cannot convert empty RegressionResults to JSON");
  const NamedTensor named{"outputs", values};
  if (auto defect = find_defect(named, options))
    return Error{defect->code, kNoOffset,
                 "results[" + std::to_string(defect->element.value_or(0)) + "]",
                 std::move(defect->message)};

  JsonLayout layout(options.pretty, out);
  TensorWriter writer(named, options, layout, out);
  layout.begin_object();
  layout.key("\"results\"");
  layout.set_single_line(true);
  layout.begin_array();
  writer.write_elements(0, shape[0]);
  layout.end_array();
  layout.end_object();
  return std::monostate{};
}

} // namespace headrace
