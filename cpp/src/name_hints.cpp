#include "name_hints.hpp"

#include <algorithm>
#include <numeric>

namespace headrace {

namespace {

constexpr std::size_t kMaxCompared = 64; // bytes of a name; keeps a hostile body's names cheap
constexpr std::size_t kMaxListed = 16;

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

} // namespace

std::string join_names(const std::vector<std::string_view> &names) {
  std::string joined;
  for (const std::string_view name : names)
    joined.append(joined.empty() ? "" : ",").append(name);
  return joined;
}

std::string suggest(std::string_view name, const std::vector<std::string_view> &names) {
  std::string text = names.empty() ? "none exist" : "those that exist: ";
  std::string_view best;
  std::size_t best_distance = std::min<std::size_t>(name.size() / 3 + 2, 8);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == kMaxListed)
      text += ", ...";
    if (i < kMaxListed)
      text.append(i == 0 ? "'" : ", '").append(names[i]).append("'");
    if (name.size() > kMaxCompared || names[i].size() > kMaxCompared)
      continue;
    const std::size_t distance = edit_distance(name, names[i]);
    if (distance < best_distance && 2 * distance <= name.size()) {
      best = names[i];
      best_distance = distance;
    }
  }
  if (!best.empty())
    text.append("; did you mean '").append(best).append("'?");
  return text;
}

} // namespace headrace
