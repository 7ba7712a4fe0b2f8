#include "decode_fault.hpp"

#include <algorithm>

#include "json_place.hpp"
#include "json_string.hpp"

namespace headrace {

namespace {

ErrorCode code_of(SyntaxFault fault) noexcept {
  if (fault == SyntaxFault::kUtf8)
    return ErrorCode::kInvalidUtf8;
  return fault == SyntaxFault::kDepth ? ErrorCode::kTooDeep : ErrorCode::kSyntax;
}

std::string place(const std::string &path, std::uint64_t offset) {
  return path.empty() ? "at byte " + std::to_string(offset)
                      : "at " + path + ", byte " + std::to_string(offset);
}

Error syntax_error(const Text &text, const SyntaxError &syntax) {
  constexpr std::ptrdiff_t kShown = 32;
  const std::uint64_t offset = text.offset(syntax.at);
  std::string path = path_at(text, syntax.at);
  std::string message = "JSON Parse error: ";
  message += text_of(syntax.fault);
  message += " at offset: " + std::to_string(offset);
  std::string detail = path.empty() ? "" : "in " + path;
  if (syntax.at != text.end && syntax.fault != SyntaxFault::kUtf8) {
    const char *const end = syntax.at + std::min(kShown, text.end - syntax.at);
    detail += (detail.empty() ? "at '" : ", at '") + excerpt(between(syntax.at, end), kShown) + "'";
  }
  if (!detail.empty())
    message.append(" (").append(detail).append(")");
  return {code_of(syntax.fault), offset, std::move(path), std::move(message)};
}

} // namespace

const char *refuse_base64(const StringToken &token, std::size_t bad, const char *value,
                          const std::string &whose, Faults &faults) {
  const char *const at = raw_position(token, bad);
  const std::string what =
      at == token.end ? "the text ends too early"
                      : "character '" + excerpt(between(at, at + 1)) + "' does not belong there";
  faults.set(ErrorCode::kBase64, at, "Unable to base64 decode", whose + ": " + what);
  faults.semantic->value = value;
  return nullptr;
}

Error to_error(const Text &text, const Faults &faults) {
  if (faults.syntax.fault != SyntaxFault::kNone)
    return syntax_error(text, faults.syntax);
  const Fault &fault = *faults.semantic;
  const std::uint64_t offset = text.offset(fault.at);
  std::string path = path_at(text, fault.at);
  std::string message = fault.message + " (" + place(path, offset);
  if (!fault.hint.empty())
    message += ": " + fault.hint;
  message += ")";
  return {fault.code, offset, std::move(path), std::move(message)};
}

} // namespace headrace
