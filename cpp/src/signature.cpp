#include "headrace/signature.hpp"

#include <algorithm>

namespace headrace {

namespace {

template <class Vector, class Key>
std::optional<std::size_t> find_sorted(const Vector &items, std::string_view name,
                                       Key key) noexcept {
  const auto it =
      std::lower_bound(items.begin(), items.end(), name,
                       [&](const auto &item, std::string_view n) { return key(item) < n; });
  if (it == items.end() || key(*it) != name)
    return std::nullopt;
  return static_cast<std::size_t>(it - items.begin());
}

void sort_by_name(Signature::Specs &specs) {
  std::sort(specs.begin(), specs.end(),
            [](const auto &a, const auto &b) { return a.first < b.first; });
}

bool fixes_rows_of(const Signature::Specs::value_type &output) {
  const TensorSpec &spec = output.second;
  return spec.known_rank && (spec.dims.empty() || spec.dims[0].has_value());
}

} // namespace

Signature::Signature(std::string name, Specs inputs, Specs outputs,
                     std::vector<std::string> float_features)
    : name_(std::move(name)), inputs_(std::move(inputs)), outputs_(std::move(outputs)),
      float_features_(std::move(float_features)),
      fixes_rows_(std::any_of(outputs_.begin(), outputs_.end(), fixes_rows_of)) {
  sort_by_name(inputs_);
  sort_by_name(outputs_);
  std::sort(float_features_.begin(), float_features_.end());
}

bool Signature::is_float_feature(std::string_view feature) const noexcept {
  return std::binary_search(float_features_.begin(), float_features_.end(), feature);
}

std::optional<std::size_t> Signature::find_input(std::string_view name) const noexcept {
  return find_sorted(inputs_, name, [](const auto &i) { return std::string_view(i.first); });
}

SignatureSet::SignatureSet(std::vector<Signature> signatures) : signatures_(std::move(signatures)) {
  std::sort(signatures_.begin(), signatures_.end(),
            [](const Signature &a, const Signature &b) { return a.name() < b.name(); });
}

std::optional<std::size_t> SignatureSet::find(std::string_view name) const noexcept {
  return find_sorted(signatures_, name,
                     [](const Signature &s) { return std::string_view(s.name()); });
}

} // namespace headrace
