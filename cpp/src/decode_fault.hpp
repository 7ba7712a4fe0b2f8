// What went wrong, before it becomes an Error: a place in the text and the message's words.
//
// Inside the decoder a function that fails yields nullptr (or false) and leaves either a syntax
// error or a semantic fault here. The outermost function turns it into an Error with offset and
// path. A semantic fault is provisional: the rest of the body is still checked for syntax, and a
// syntax error wins.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "headrace/error.hpp"
#include "json_syntax.hpp"

namespace headrace {

struct Fault {
  ErrorCode code;
  const char *at;      ///< the byte to blame
  const char *value;   ///< where the value that holds it begins
  std::string message; ///< TF Serving's literal first where it has one
  std::string hint;    ///< what TF Serving leaves out; stands last, after any wrapping
};

struct Faults {
  SyntaxError syntax;
  std::optional<Fault> semantic;

  bool any() const noexcept { return syntax.fault != SyntaxFault::kNone || semantic.has_value(); }
  /// Yields nullptr, so that a function can `return faults.set(...)`.
  const char *set(ErrorCode code, const char *at, std::string message, std::string hint = {}) {
    semantic = Fault{code, at, at, std::move(message), std::move(hint)};
    return nullptr;
  }
};

/// Sets the fault of a b64 object at `value` whose `token` is not base64, `bad` as in Base64Result.
/// `whose` names what it was meant for. Yields nullptr.
const char *refuse_base64(const StringToken &token, std::size_t bad, const char *value,
                          const std::string &whose, Faults &faults);

/// The Error for what `faults` holds; a syntax error wins. Precondition: faults.any().
Error to_error(const Text &text, const Faults &faults);

} // namespace headrace
