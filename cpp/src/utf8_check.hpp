// Whether a body is UTF-8, for bodies that are mostly base64: what was decoded is ASCII, and need
// not be read again.
#pragma once

#include "headrace/utf8.hpp"
#include "json_text.hpp"

namespace headrace {

class Utf8Check {
public:
  /// Nothing of `text` has been judged yet.
  explicit Utf8Check(const Text &text) noexcept : judged_(text.begin), end_(text.end) {}

  /// What lies between is ASCII. Places before one that was given already are ignored.
  void pass_over(const char *first, const char *last) noexcept {
    if (last - first < kWorthwhile || first < judged_)
      return;
    valid_ = valid_ && is_valid_utf8(between(judged_, first));
    judged_ = last;
  }
  /// Judges the rest.
  bool is_valid() const noexcept { return valid_ && is_valid_utf8(between(judged_, end_)); }

private:
  static constexpr std::ptrdiff_t kWorthwhile = 4096;

  const char *judged_; ///< what lies before is known
  const char *end_;
  bool valid_ = true;
};

} // namespace headrace
