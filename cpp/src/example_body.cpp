#include "example_body.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/byte_buffer.hpp"
#include "headrace/json_write.hpp"

namespace headrace {

namespace {

constexpr std::size_t kMaxInputs = 8;
constexpr std::size_t kMaxDims = 6;
constexpr std::uint64_t kMaxElements = 16; // of a value that is shown whole
constexpr std::uint64_t kMaxItems = 2;     // of a list of any other

std::string_view example_of(DType dtype, std::string_view name) {
  switch (dtype) {
  case DType::kBool:
    return "true";
  case DType::kString:
    return name.ends_with("_bytes") ? R"({"b64": "AAEC"})" : R"("text")";
  case DType::kFloat16:
  case DType::kBfloat16:
  case DType::kFloat32:
  case DType::kFloat64:
    return "1.0";
  default:
    return "1";
  }
}

class BodyWriter {
public:
  explicit BodyWriter(const Signature &signature)
      : inputs_(signature.inputs()), rows_(std::all_of(inputs_.begin(), inputs_.end(), has_rows)) {}

  std::string write() {
    if (inputs_.empty() || inputs_.size() > kMaxInputs ||
        !std::all_of(inputs_.begin(), inputs_.end(), can_be_shown))
      return {};
    out_.append(rows_ ? R"({"instances": [)" : R"({"inputs": )");
    if (inputs_.size() == 1)
      write_input(inputs_[0]);
    else
      write_object();
    out_.append(rows_ ? "]}" : "}");
    return {out_.data(), out_.size()};
  }

private:
  using Input = Signature::Specs::value_type;

  // Whether one row is enough to show.
  static bool has_rows(const Input &input) {
    const TensorSpec &spec = input.second;
    return !spec.known_rank || (!spec.dims.empty() && spec.dims[0].value_or(1) == 1);
  }

  static bool can_be_shown(const Input &input) {
    const TensorSpec &spec = input.second;
    return spec.dtype != DType::kUnsupported && (!spec.known_rank || spec.dims.size() <= kMaxDims);
  }

  void write_object() {
    out_.append("{");
    for (const Input &input : inputs_) {
      out_.append(&input == inputs_.data() ? "" : ", ");
      write_json_string_lossy(input.first, out_);
      out_.append(": ");
      write_input(input);
    }
    out_.append("}");
  }

  void write_input(const Input &input) {
    const auto &[name, spec] = input;
    std::vector<std::uint64_t> extents;
    std::uint64_t elements = 1; // as far as it matters
    if (spec.known_rank)
      for (std::size_t i = rows_ ? 1 : 0; i < spec.dims.size(); ++i) { // a row lacks the first
        extents.push_back(spec.dims[i].value_or(1));
        elements *= std::min(extents.back(), kMaxElements + 1);
      }
    write_value(extents, elements > kMaxElements ? kMaxItems : kMaxElements,
                example_of(spec.dtype, name));
  }

  void write_value(std::span<const std::uint64_t> extents, std::uint64_t items,
                   std::string_view leaf) {
    if (extents.empty())
      return out_.append(leaf);
    out_.append("[");
    for (std::uint64_t i = 0; i < std::min(extents[0], items); ++i) {
      out_.append(i == 0 ? "" : ", ");
      write_value(extents.subspan(1), items, leaf);
    }
    out_.append(extents[0] > items ? ", ...]" : "]");
  }

  const Signature::Specs &inputs_;
  bool rows_;
  ByteBuffer out_;
};

} // namespace

std::string example_body(const Signature &signature) { return BodyWriter(signature).write(); }

} // namespace headrace
