// JSON's grammar without building anything: strings, literals, and whole values to be passed over.
// Faults carry RapidJSON's texts and offsets, since clients of TensorFlow Serving match on them.
// Spec: TensorFlow Serving REST, lexical rules; RFC 8259.
#pragma once

#include <cstddef>
#include <string_view>

#include "headrace/number_parse.hpp"
#include "json_text.hpp"

namespace headrace {

enum class SyntaxFault : std::uint8_t {
  kNone,
  kEmpty,
  kTrailing,
  kValue,
  kMissName,
  kMissColon,
  kMissCommaOrBrace,
  kMissCommaOrBracket,
  kHex,
  kSurrogate,
  kEscape,
  kQuote,
  kTooBig,
  kMissFraction,
  kMissExponent,
  kUtf8,  ///< not one of RapidJSON's: a string that is not UTF-8
  kDepth, ///< not one of RapidJSON's: nesting beyond the limit
};

/// RapidJSON's text for the fault.
std::string_view text_of(SyntaxFault fault) noexcept;

struct SyntaxError {
  SyntaxFault fault = SyntaxFault::kNone;
  const char *at = nullptr;

  /// Sets both and yields nullptr, which is how the functions below report a fault.
  const char *set(SyntaxFault what, const char *where) noexcept {
    fault = what;
    at = where;
    return nullptr;
  }
};

/// What is between a string's quotes.
struct StringToken {
  const char *begin = nullptr;
  const char *end = nullptr;
  bool escaped = false; ///< holds at least one backslash

  std::string_view raw() const noexcept { return between(begin, end); }
};

enum class Literal : std::uint8_t { kNull, kFalse, kTrue, kNan, kInfinity, kNegativeInfinity };

/// The rules that a scan keeps to.
struct SyntaxRules {
  std::size_t max_depth = 10'000;
  bool check_utf8 = false; ///< off where the whole body is known to be UTF-8
};

// Each of these takes the first byte of what it reads, yields the byte after it, or nullptr with
// `error` set.

/// `p` at the byte before the text, which is the opening quote. Checks control bytes and escapes,
/// so unescaping cannot fail.
const char *scan_string(const char *p, const char *end, StringToken &token, SyntaxError &error,
                        bool check_utf8 = false) noexcept;
/// Reads what begins with t, f, n, N, I or "-N", "-I".
const char *scan_literal(const char *p, const char *end, Literal &literal,
                         SyntaxError &error) noexcept;
/// Reads a number; faults of number_parse.hpp become faults of syntax.
const char *scan_number_token(const char *p, const char *end, Decimal &decimal,
                              SyntaxError &error) noexcept;
/// Passes over one whole value, blanks before it included. `depth`: how many lists and objects
/// are open around it. Iterative: memory is one bit per level.
const char *skip_value(const char *p, const char *end, std::size_t depth, const SyntaxRules &rules,
                       SyntaxError &error);

/// Does the number-like text at `p` begin one of the non-finite tokens?
inline bool begins_non_finite(const char *p, const char *end) noexcept {
  if (peek(p, end) == '-')
    ++p;
  const char c = peek(p, end);
  return c == 'N' || c == 'I';
}

/// `p` after one value of a list or object: passes over blanks and the delimiter. `closed`: it was
/// the closing one.
inline const char *scan_delimiter(const char *p, const char *end, bool object, bool &closed,
                                  SyntaxError &error) noexcept {
  p = skip_blanks(p, end);
  const char c = peek(p, end);
  closed = c == (object ? '}' : ']');
  if (closed || c == ',')
    return p + 1;
  return error.set(object ? SyntaxFault::kMissCommaOrBrace : SyntaxFault::kMissCommaOrBracket, p);
}

/// `p` where a member's name must begin, blanks passed over: the name and the colon.
const char *scan_name(const char *p, const char *end, StringToken &name, SyntaxError &error,
                      bool check_utf8 = false) noexcept;

} // namespace headrace
