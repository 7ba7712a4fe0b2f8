#include "request_forms.hpp"

#include <utility>

#include "declared_shape.hpp"

namespace headrace {

std::vector<std::string_view> input_names(const Signature &signature) {
  std::vector<std::string_view> names;
  for (const auto &input : signature.inputs())
    names.push_back(input.first);
  return names;
}

bool check_declared(const TensorFiller &writer, const Shape &shape, const char *at,
                    DecodeScope &scope) {
  if (!scope.options.check_shapes)
    return true;
  auto defect = shape_defect(writer.name(), writer.spec(), shape);
  if (defect)
    scope.faults.set(ErrorCode::kShape, at, *std::move(defect));
  return !defect;
}

} // namespace headrace
