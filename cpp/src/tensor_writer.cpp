#include "tensor_writer.hpp"

#include "headrace/json_write.hpp"
#include "output_defect.hpp"

namespace headrace {

namespace {

/// All but the separator, which depends on where a run stands.
RunStyle style_of(const EncodeOptions &options) {
  RunStyle style;
  style.tfserving_numbers = options.pretty;
  style.quote_64_bit = options.int64_as_string;
  switch (options.non_finite) {
  case NonFinite::kToken:
  case NonFinite::kError: // found before anything is written
    style.nan = "NaN";
    style.infinity = "Infinity";
    style.minus_infinity = "-Infinity";
    break;
  case NonFinite::kNull:
    style.nan = style.infinity = style.minus_infinity = "null";
    break;
  case NonFinite::kString:
    style.nan = "\"NaN\"";
    style.infinity = "\"Infinity\"";
    style.minus_infinity = "\"-Infinity\"";
    break;
  }
  return style;
}

} // namespace

TensorWriter::TensorWriter(const NamedTensor &named, const EncodeOptions &options,
                           JsonLayout &layout, ByteBuffer &out)
    : tensor_(named.tensor), layout_(layout), out_(out),
      run_writer_(find_run_writer(named.tensor.dtype)), style_(style_of(options)) {
  if (tensor_.dtype == DType::kString) {
    all_as_b64_ = is_bytes_name(named.name);
    invalid_as_b64_ = options.invalid_utf8_as_b64 && !all_as_b64_ && !are_all_utf8(tensor_);
  }
  std::uint64_t stride = 1;
  for (std::size_t axis = tensor_.shape.rank(); axis-- > 0;) {
    strides_[axis] = stride;
    stride *= tensor_.shape[axis];
  }
}

void TensorWriter::write(std::size_t axis, std::uint64_t first) {
  if (axis == tensor_.shape.rank())
    return write_element(first);
  layout_.begin_array();
  write_items(axis, first);
  layout_.end_array();
}

void TensorWriter::write_items(std::size_t axis, std::uint64_t first) {
  const std::uint64_t count = tensor_.shape[axis];
  if (axis + 1 == tensor_.shape.rank())
    return write_elements(first, count);
  for (std::uint64_t i = 0; i < count; ++i)
    write(axis + 1, first + i * strides_[axis]);
}

void TensorWriter::write_elements(std::uint64_t first, std::uint64_t count) {
  if (tensor_.dtype == DType::kString) {
    for (std::uint64_t i = 0; i < count; ++i)
      write_string(tensor_.string_at(first + i));
    return;
  }
  if (count == 0)
    return;
  layout_.before_value();
  style_.separator = layout_.separator();
  run_writer_(tensor_.data, first, count, style_, out_);
}

void TensorWriter::write_string(std::string_view text) {
  if (!all_as_b64_ && (!invalid_as_b64_ || is_valid_utf8(text))) {
    layout_.before_value();
    return write_json_string(text, out_);
  }
  layout_.begin_object();
  layout_.key("\"b64\"");
  out_.append('"');
  write_base64(text, out_);
  out_.append('"');
  layout_.end_object();
}

} // namespace headrace
