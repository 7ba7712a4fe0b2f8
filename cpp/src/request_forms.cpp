#include "request_forms.hpp"

#include <bitset>

namespace headrace {

namespace {

/// Exporters write the shape of the one example they had: models that declare [1] or [-1,1] are
/// asked for any number of scalars, TF Serving's own among them, and their graphs answer. So a
/// declared 1 takes any extent, or none at all; whether the graph copes is the graph's to say.
bool fits(const std::vector<std::optional<std::uint64_t>> &declared, const Shape &shape) noexcept {
  std::bitset<kMaxRank + 1> matched; // matched[j]: the dims so far fit the first j extents
  matched.set(0);
  for (const auto &extent : declared) {
    auto next = extent == 1U ? matched : decltype(matched)();
    for (std::size_t j = 0; j < shape.rank(); ++j)
      if (matched[j] && (!extent || extent == 1U || *extent == shape[j]))
        next.set(j + 1);
    matched = next;
  }
  return matched[shape.rank()];
}

} // namespace

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
  if (!scope.options.check_shapes || !spec.known_rank || fits(spec.dims, shape))
    return true;
  std::string declared = "[";
  for (const auto &extent : spec.dims)
    declared.append(declared.size() == 1 ? "" : ",").append(extent ? std::to_string(*extent) : "?");
  scope.faults.set(ErrorCode::kShape, at,
                   "Input '" + writer.name() + "' has shape " + to_text(shape) + ", expected " +
                       declared.append("]"));
  return false;
}

} // namespace headrace
