// Brackets, commas and white space of JSON: compact, or as TF Serving lays its answers out.
//
// TF Serving's layout is RapidJSON's pretty writer with its "single line array" switch thrown on
// and off while it writes, which gives shapes that look odd but are what clients have seen: an
// array begun on one line and ended on the next, objects within a one-line array that are broken
// over several. So the switch is a member here too. Spec: tfserving-rest section 10.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "headrace/byte_buffer.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// Writes structure only; who writes a scalar calls `before_value` and then appends the text.
/// Single-owner.
class JsonLayout {
public:
  JsonLayout(bool pretty, ByteBuffer &out) noexcept : out_(out), pretty_(pretty) {}

  /// Whether the elements of arrays stand on one line from now on. Means nothing in compact form.
  void set_single_line(bool on) noexcept { single_line_ = on; }

  void begin_array() { open('[', true); }
  void end_array() { close(']', pretty_ && !single_line_); }
  void begin_object() { open('{', false); }
  void end_object() { close('}', pretty_); }

  /// A member's name, as a JSON string with its quotes.
  void key(std::string_view quoted_name) {
    if (!levels_[depth_].empty)
      out_.append(',');
    levels_[depth_].empty = false;
    if (pretty_)
      break_line();
    out_.append(quoted_name);
    out_.append(pretty_ ? ": " : ":");
  }

  /// What stands between the element before, if any, and the one to be written now. Nothing after a
  /// key.
  void before_value() {
    Level &level = levels_[depth_];
    if (!level.array)
      return;
    if (!level.empty)
      out_.append(pretty_ && single_line_ ? ", " : ",");
    level.empty = false;
    if (pretty_ && !single_line_)
      break_line();
  }

  /// What `before_value` writes between two elements of the innermost array open now.
  std::string_view separator() const noexcept {
    if (!pretty_)
      return ",";
    return single_line_ ? ", " : break_text().substr(0, 2 + kIndent * depth_);
  }

private:
  struct Level {
    bool array = false;
    bool empty = true;
  };
  static constexpr std::size_t kIndent = 4;
  /// The body's object, its one member, a row's object, and a {"b64": ...} around a tensor's
  /// brackets.
  static constexpr std::size_t kMaxDepth = kMaxRank + 4;

  void open(char bracket, bool array) {
    before_value();
    out_.append(bracket);
    levels_[++depth_] = {array, true};
  }
  void close(char bracket, bool on_own_line) {
    const bool empty = levels_[depth_--].empty;
    if (on_own_line && !empty)
      break_line();
    out_.append(bracket);
  }
  void break_line() { out_.append(break_text().substr(1, 1 + kIndent * depth_)); }

  static constexpr std::string_view break_text() noexcept { return {kBreak.data(), kBreak.size()}; }
  static constexpr auto kBreak = [] {
    std::array<char, 2 + kIndent * kMaxDepth> text{};
    text.fill(' ');
    text[0] = ',';
    text[1] = '\n';
    return text;
  }();

  ByteBuffer &out_;
  bool pretty_;
  bool single_line_ = false;
  std::size_t depth_ = 0; // open brackets; level 0 is outside of all of them
  std::array<Level, kMaxDepth + 1> levels_{};
};

} // namespace headrace
