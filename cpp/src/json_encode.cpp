#include "headrace/json_encode.hpp"

#include <algorithm>
#include <utility>

#include "json_layout.hpp"
#include "output_defect.hpp"
#include "row_outputs.hpp"
#include "tensor_writer.hpp"

namespace headrace {

namespace {

using Selection = std::vector<const NamedTensor *>;

template <class Names> std::string joined(const Names &names) {
  std::string text;
  for (const auto &name : names)
    text.append(text.empty() ? "" : ", ").append(quoted(name));
  return text;
}

Error unknown_outputs(const std::vector<std::string> &unknown, const Selection &all) {
  std::vector<std::string_view> names;
  for (const NamedTensor *output : all)
    names.push_back(output->name);
  return {ErrorCode::kUnknownOutput, kNoOffset, "",
          "The model has no output named " + joined(unknown) + "; it gave " + joined(names)};
}

/// The outputs that are wanted, in the order of their names.
Result<Selection> select(std::span<const NamedTensor> outputs, const EncodeOptions &options) {
  Selection all;
  for (const NamedTensor &output : outputs)
    all.push_back(&output);
  std::sort(all.begin(), all.end(), [](const auto *a, const auto *b) { return a->name < b->name; });
  if (all.empty())
    return Error{ErrorCode::kStructure, kNoOffset, "", "Cannot convert empty tensor map to JSON"};
  if (options.outputs.empty())
    return all;

  const auto is_named = [](std::string_view name) {
    return [name](const NamedTensor *output) { return output->name == name; };
  };
  std::vector<std::string> unknown;
  for (const std::string &name : options.outputs)
    if (std::none_of(all.begin(), all.end(), is_named(name)))
      unknown.push_back(name);
  if (!unknown.empty())
    return unknown_outputs(unknown, all);
  std::erase_if(all, [&](const NamedTensor *output) {
    return std::find(options.outputs.begin(), options.outputs.end(), output->name) ==
           options.outputs.end();
  });
  return all;
}

/// Where elements stand in the body, for errors.
struct Place {
  Format format;
  bool named; ///< several outputs, hence objects by name

  std::string path_of(std::string_view name) const {
    std::string path = format == Format::kRow ? "predictions" : "outputs";
    if (named && format == Format::kColumnar)
      path.append(".").append(name);
    return path;
  }
  std::string path_of(std::string_view name, std::span<const std::uint64_t> index) const {
    std::string path = path_of(name);
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      path.append("[").append(std::to_string(index[axis])).append("]");
      if (axis == 0 && named && format == Format::kRow)
        path.append(".").append(name);
    }
    return path;
  }
};

/// Everything that can be wrong with the outputs one by one.
Result<std::monostate> check_each(const Selection &outputs, const EncodeOptions &options,
                                  Format format) {
  const Place place{format, outputs.size() > 1};
  for (const NamedTensor *output : outputs)
    if (auto defect = find_defect(*output, options)) {
      const std::string path =
          defect->element
              ? place.path_of(output->name, index_of(output->tensor.shape, *defect->element))
              : place.path_of(output->name);
      return Error{defect->code, kNoOffset, path, std::move(defect->message)};
    }
  return std::monostate{};
}

/// Row format: every output has one row per instance.
Result<std::monostate> check_rows(const Selection &outputs) {
  const NamedTensor &front = *outputs.front();
  for (const NamedTensor *output : outputs) {
    const Shape &shape = output->tensor.shape;
    if (shape.rank() == 0)
      return Error{ErrorCode::kShape, kNoOffset, "predictions", no_rows_text(output->name)};
    if (shape[0] != front.tensor.shape[0])
      return Error{ErrorCode::kBatchSize, kNoOffset, "predictions",
                   other_rows_text(output->name, shape[0], front.tensor.shape[0])};
  }
  return std::monostate{};
}

/// The names of the outputs as JSON strings.
std::vector<ByteBuffer> quoted_names(const Selection &outputs) {
  std::vector<ByteBuffer> names;
  for (const NamedTensor *output : outputs)
    write_json_string_lossy(output->name, names.emplace_back());
  return names;
}

std::vector<TensorWriter> writers_of(const Selection &outputs, const EncodeOptions &options,
                                     JsonLayout &layout, ByteBuffer &out) {
  std::vector<TensorWriter> writers;
  for (const NamedTensor *output : outputs)
    writers.emplace_back(*output, options, layout, out);
  return writers;
}

void write_rows(const Selection &outputs, const EncodeOptions &options, JsonLayout &layout,
                ByteBuffer &out) {
  auto writers = writers_of(outputs, options, layout, out);
  if (writers.size() == 1) {
    layout.set_single_line(true);
    writers.front().write_items(0, 0);
    layout.set_single_line(false);
    return;
  }
  const auto names = quoted_names(outputs);
  const std::uint64_t rows = outputs.front()->tensor.shape[0];
  for (std::uint64_t row = 0; row < rows; ++row) {
    layout.begin_object();
    for (std::size_t i = 0; i < writers.size(); ++i) {
      layout.key(names[i].view());
      layout.set_single_line(true);
      writers[i].write(1, row * writers[i].stride(0));
      layout.set_single_line(false);
    }
    layout.end_object();
  }
}

void write_columns(const Selection &outputs, const EncodeOptions &options, JsonLayout &layout,
                   ByteBuffer &out) {
  auto writers = writers_of(outputs, options, layout, out);
  if (writers.size() == 1)
    return writers.front().write(0, 0);
  const auto names = quoted_names(outputs);
  layout.begin_object();
  for (std::size_t i = 0; i < writers.size(); ++i) {
    layout.key(names[i].view());
    writers[i].write(0, 0);
  }
  layout.end_object();
}

} // namespace

Result<std::monostate> encode_predict(std::span<const NamedTensor> outputs, Format format,
                                      const EncodeOptions &options, ByteBuffer &out) {
  const auto selected = select(outputs, options);
  if (!selected)
    return selected.error();
  if (format == Format::kRow)
    if (auto checked = check_rows(selected.value()); !checked)
      return checked;
  if (auto checked = check_each(selected.value(), options, format); !checked)
    return checked;

  JsonLayout layout(options.pretty, out);
  layout.begin_object();
  if (format == Format::kRow) {
    layout.key("\"predictions\"");
    layout.begin_array();
    write_rows(selected.value(), options, layout, out);
    layout.end_array();
  } else {
    layout.key("\"outputs\"");
    write_columns(selected.value(), options, layout, out);
  }
  layout.end_object();
  return std::monostate{};
}

void write_error_body(std::string_view message, ByteBuffer &out) {
  JsonLayout layout(true, out);
  layout.begin_object();
  layout.key("\"error\"");
  write_json_string_lossy(message, out);
  layout.end_object();
}

} // namespace headrace
