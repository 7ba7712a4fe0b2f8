#include "declared_shape.hpp"

#include <bitset>
#include <vector>

namespace headrace {

namespace {

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

std::string to_text(const std::vector<std::optional<std::uint64_t>> &dims) {
  std::string text = "[";
  for (const auto &extent : dims)
    text.append(text.size() == 1 ? "" : ",").append(extent ? std::to_string(*extent) : "?");
  return text.append("]");
}

} // namespace

std::string to_text(const TensorSpec &spec) {
  return std::string(tensorflow_name(spec.dtype)) + (spec.known_rank ? to_text(spec.dims) : "");
}

std::string to_text(const Shape &shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape.dims())
    text.append(text.size() == 1 ? "" : ",").append(std::to_string(extent));
  return text.append("]");
}

std::optional<std::string> shape_defect(const std::string &input, const TensorSpec &spec,
                                        const Shape &shape) {
  if (!spec.known_rank || fits(spec.dims, shape))
    return std::nullopt;
  return "Input '" + input + "' has shape " + to_text(shape) + ", expected " + to_text(spec.dims);
}

} // namespace headrace
