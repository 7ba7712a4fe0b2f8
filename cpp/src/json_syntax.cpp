#include "json_syntax.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "json_string.hpp"

namespace headrace {

namespace {

// One bit per open list (0) or object (1); the innermost 64 in a register.
class NestingStack {
public:
  void push(bool object) {
    if (depth_ % 64 == 0 && depth_ != 0)
      outer_.push_back(bits_);
    bits_ = (bits_ << 1) | (object ? 1U : 0U);
    ++depth_;
  }
  void pop() noexcept {
    --depth_;
    bits_ >>= 1;
    if (depth_ % 64 == 0 && depth_ != 0) {
      bits_ = outer_.back();
      outer_.pop_back();
    }
  }
  bool in_object() const noexcept { return (bits_ & 1) != 0; }
  std::size_t depth() const noexcept { return depth_; }

private:
  std::uint64_t bits_ = 0;
  std::size_t depth_ = 0;
  std::vector<std::uint64_t> outer_;
};

// Bytes of `word` that need a look inside a string: quote, backslash, below 0x20. The top bit of
// each byte is set; bytes after the first hit may be marked wrongly (a borrow), which is harmless.
std::uint64_t special_bytes(std::uint64_t word) noexcept {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kTops = 0x8080808080808080;
  const std::uint64_t quote = word ^ (kOnes * '"');
  const std::uint64_t backslash = word ^ (kOnes * '\\');
  const auto zero_bytes = [](std::uint64_t w) { return (w - kOnes) & ~w; };
  return (zero_bytes(quote) | zero_bytes(backslash) | ((word - kOnes * 0x20) & ~word)) & kTops;
}

const char *find_special(const char *p, const char *end) noexcept {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i control = _mm_set1_epi8(0x1F);
  for (; end - p >= 16; p += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    const __m128i special =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                     _mm_cmpeq_epi8(_mm_min_epu8(bytes, control), bytes));
    if (const auto mask = static_cast<unsigned>(_mm_movemask_epi8(special)); mask != 0)
      return p + std::countr_zero(mask);
  }
#endif
  if constexpr (std::endian::native == std::endian::little) {
    for (; end - p >= 8; p += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, p, 8);
      if (const std::uint64_t special = special_bytes(word); special != 0)
        return p + std::countr_zero(special) / 8;
    }
  }
  while (p != end && *p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20)
    ++p;
  return p;
}

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Four hex digits at `p`, or -1.
int scan_hex4(const char *p, const char *end) noexcept {
  if (end - p < 4)
    return -1;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = hex_value(p[i]);
    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  return value;
}

// `p` at the backslash. A lone low surrogate is refused like a lone high one: what it would become
// is not UTF-8.
const char *scan_escape(const char *p, const char *end, SyntaxError &error) noexcept {
  const char kind = peek(p + 1, end);
  if (kind != 'u') {
    if (kind != '\0' && std::strchr("\"\\/bfnrt", kind) != nullptr)
      return p + 2;
    return error.set(SyntaxFault::kEscape, p);
  }
  const int unit = scan_hex4(p + 2, end);
  if (unit < 0)
    return error.set(SyntaxFault::kHex, p);
  if (unit < 0xD800 || unit > 0xDFFF)
    return p + 6;
  if (unit >= 0xDC00 || peek(p + 6, end) != '\\' || peek(p + 7, end) != 'u')
    return error.set(SyntaxFault::kSurrogate, p);
  const int low = scan_hex4(p + 8, end);
  if (low < 0)
    return error.set(SyntaxFault::kHex, p);
  if (low < 0xDC00 || low > 0xDFFF)
    return error.set(SyntaxFault::kSurrogate, p);
  return p + 12;
}

const char *scan_scalar(const char *p, const char *end, const SyntaxRules &rules,
                        SyntaxError &error) noexcept {
  const char c = peek(p, end);
  if (c == '"') {
    StringToken token;
    return scan_string(p, end, token, error, rules.check_utf8);
  }
  if (c == 't' || c == 'f' || c == 'n' || begins_non_finite(p, end)) {
    Literal literal{};
    return scan_literal(p, end, literal, error);
  }
  Decimal decimal;
  return scan_number_token(p, end, decimal, error);
}

} // namespace

std::string_view text_of(SyntaxFault fault) noexcept {
  switch (fault) {
  case SyntaxFault::kNone:
    return "No error.";
  case SyntaxFault::kEmpty:
    return "The document is empty.";
  case SyntaxFault::kTrailing:
    return "The document root must not be followed by other values.";
  case SyntaxFault::kValue:
    return "Invalid value.";
  case SyntaxFault::kMissName:
    return "Missing a name for object member.";
  case SyntaxFault::kMissColon:
    return "Missing a colon after a name of object member.";
  case SyntaxFault::kMissCommaOrBrace:
    return "Missing a comma or '}' after an object member.";
  case SyntaxFault::kMissCommaOrBracket:
    return "Missing a comma or ']' after an array element.";
  case SyntaxFault::kHex:
    return "Incorrect hex digit after \\u escape in string.";
  case SyntaxFault::kSurrogate:
    return "The surrogate pair in string is invalid.";
  case SyntaxFault::kEscape:
    return "Invalid escape character in string.";
  case SyntaxFault::kQuote:
    return "Missing a closing quotation mark in string.";
  case SyntaxFault::kTooBig:
    return "Number too big to be stored in double.";
  case SyntaxFault::kMissFraction:
    return "Miss fraction part in number.";
  case SyntaxFault::kMissExponent:
    return "Miss exponent in number.";
  case SyntaxFault::kUtf8:
    return "Invalid UTF-8 in string.";
  case SyntaxFault::kDepth:
    return "Nesting beyond the limit.";
  }
  return "";
}

const char *scan_string(const char *p, const char *end, StringToken &token, SyntaxError &error,
                        bool check_utf8) noexcept {
  token.begin = ++p;
  token.escaped = false;
  for (;;) {
    p = find_special(p, end);
    const char c = peek(p, end);
    if (c == '"')
      break;
    if (c != '\\')
      return error.set(c == '\0' ? SyntaxFault::kQuote : SyntaxFault::kEscape, p);
    token.escaped = true;
    p = scan_escape(p, end, error);
    if (p == nullptr)
      return nullptr;
  }
  token.end = p;
  if (check_utf8)
    if (const char *bad = find_invalid_utf8(token.begin, token.end); bad != nullptr)
      return error.set(SyntaxFault::kUtf8, bad);
  return p + 1;
}

const char *scan_literal(const char *p, const char *end, Literal &literal,
                         SyntaxError &error) noexcept {
  const auto expect = [&](std::string_view rest) {
    for (const char c : rest) {
      if (peek(p, end) != c)
        return error.set(SyntaxFault::kValue, p);
      ++p;
    }
    return p;
  };
  switch (*p) {
  case 't':
    literal = Literal::kTrue;
    return expect("true");
  case 'f':
    literal = Literal::kFalse;
    return expect("false");
  case 'n':
    literal = Literal::kNull;
    return expect("null");
  default:
    break;
  }
  const bool negative = *p == '-';
  p += negative ? 1 : 0;
  if (peek(p, end) == 'N') {
    literal = Literal::kNan;
    return expect("NaN");
  }
  literal = negative ? Literal::kNegativeInfinity : Literal::kInfinity;
  if (expect("Inf") == nullptr)
    return nullptr;
  return peek(p, end) == 'i' ? expect("inity") : p;
}

const char *scan_number_token(const char *p, const char *end, Decimal &decimal,
                              SyntaxError &error) noexcept {
  const NumberScan scan = scan_number(p, end);
  decimal = scan.decimal;
  switch (scan.fault) {
  case NumberFault::kNone:
    return scan.next;
  case NumberFault::kInvalid:
    return error.set(SyntaxFault::kValue, scan.next);
  case NumberFault::kMissFraction:
    return error.set(SyntaxFault::kMissFraction, scan.next);
  case NumberFault::kMissExponent:
    return error.set(SyntaxFault::kMissExponent, scan.next);
  case NumberFault::kTooBig:
    return error.set(SyntaxFault::kTooBig, scan.next);
  }
  return nullptr;
}

const char *scan_name(const char *p, const char *end, StringToken &name, SyntaxError &error,
                      bool check_utf8) noexcept {
  if (peek(p, end) != '"')
    return error.set(SyntaxFault::kMissName, p);
  p = scan_string(p, end, name, error, check_utf8);
  if (p == nullptr)
    return nullptr;
  p = skip_blanks(p, end);
  if (peek(p, end) != ':')
    return error.set(SyntaxFault::kMissColon, p);
  return p + 1;
}

const char *skip_value(const char *p, const char *end, std::size_t depth, const SyntaxRules &rules,
                       SyntaxError &error) {
  NestingStack open;
  StringToken name;
  for (;;) {
    // A value begins here; then as many closing brackets as follow it are taken.
    p = skip_blanks(p, end);
    const char c = peek(p, end);
    bool closed = false;
    if (c == '[' || c == '{') {
      if (depth + open.depth() >= rules.max_depth)
        return error.set(SyntaxFault::kDepth, p);
      open.push(c == '{');
      p = skip_blanks(p + 1, end);
      closed = peek(p, end) == (c == '{' ? '}' : ']');
      p += closed ? 1 : 0;
    } else {
      p = scan_scalar(p, end, rules, error);
      if (p == nullptr || open.depth() == 0)
        return p;
      p = scan_delimiter(p, end, open.in_object(), closed, error);
      if (p == nullptr)
        return nullptr;
    }
    while (closed) {
      open.pop();
      if (open.depth() == 0)
        return p;
      p = scan_delimiter(p, end, open.in_object(), closed, error);
      if (p == nullptr)
        return nullptr;
    }
    if (open.in_object()) {
      p = scan_name(skip_blanks(p, end), end, name, error, rules.check_utf8);
      if (p == nullptr)
        return nullptr;
    }
  }
}

} // namespace headrace
