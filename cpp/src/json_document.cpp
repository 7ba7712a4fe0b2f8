#include "json_document.hpp"

#include <cstring>

#include "json_place.hpp"

namespace headrace {

const char *find_root(const Text &text, SyntaxError &error) noexcept {
  const char *p = text.begin;
  if (text.end - p >= 3 && std::memcmp(p, "\xEF\xBB\xBF", 3) == 0)
    p += 3;
  p = skip_blanks(p, text.end);
  const char c = peek(p, text.end);
  if (c == '\0' || c == ']' || c == '}' || c == ',' || c == ':')
    return error.set(SyntaxFault::kEmpty, p);
  return p;
}

bool check_end(const char *p, const Text &text, SyntaxError &error) noexcept {
  p = skip_blanks(p, text.end);
  return p == text.end || error.set(SyntaxFault::kTrailing, p) != nullptr;
}

bool check_object(const char *root, const Text &text, Faults &faults) {
  return *root == '{' ||
         faults.set(ErrorCode::kStructure, root,
                    "JSON Value: " + excerpt_of_value(text, root) + " Is not object") != nullptr;
}

bool check_signature_name(const char *at, const char *root, const Text &text, Faults &faults) {
  return at == nullptr || *at == '"' ||
         faults.set(ErrorCode::kStructure, at,
                    "JSON Value: " + excerpt_of_value(text, root) +
                        " not formatted correctly. 'signature_name' key must be a string value.") !=
             nullptr;
}

} // namespace headrace
