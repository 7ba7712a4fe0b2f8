#include "request_forms.hpp"

namespace headrace {

std::vector<std::string_view> input_names(const Signature &signature) {
  std::vector<std::string_view> names;
  for (const auto &input : signature.inputs())
    names.push_back(input.first);
  return names;
}

std::string to_text(const Shape &shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape.dims())
    text.append(text.size() == 1 ? "" : ",").append(std::to_string(extent));
  return text.append("]");
}

bool check_declared(const TensorFiller &writer, const Shape &shape, const char *at,
                    DecodeScope &scope) {
  const TensorSpec &spec = writer.spec();
  if (!scope.options.check_shapes || !spec.known_rank)
    return true;
  bool same = spec.dims.size() == shape.rank();
  std::string declared = "[";
  for (std::size_t i = 0; i < spec.dims.size(); ++i) {
    same = same && (!spec.dims[i] || *spec.dims[i] == shape[i]);
    declared.append(i == 0 ? "" : ",").append(spec.dims[i] ? std::to_string(*spec.dims[i]) : "?");
  }
  if (!same)
    scope.faults.set(ErrorCode::kShape, at,
                     "Input '" + writer.name() + "' has shape " + to_text(shape) + ", expected " +
                         declared.append("]"));
  return same;
}

} // namespace headrace
