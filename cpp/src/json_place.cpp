#include "json_place.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <vector>

#include "json_syntax.hpp"

namespace headrace {

namespace {

constexpr std::size_t kMaxPath = 512;
constexpr std::size_t kMaxName = 64;

struct Frame {
  bool object;
  std::string_view name{}; ///< raw, of the member being read; of an object only
  bool named = false;      ///< false: between members
  std::uint64_t index = 0; ///< of the element being read; of a list only
};

bool is_identifier(std::string_view name) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), is_word);
}

void append_name(std::string &path, std::string_view name) {
  if (is_identifier(name) && name.size() <= kMaxName) {
    if (!path.empty())
      path += '.';
    path += name;
  } else {
    path += "[\"" + excerpt(name, kMaxName) + "\"]";
  }
}

std::string to_path(const std::vector<Frame> &frames) {
  std::string path;
  for (const Frame &frame : frames) {
    if (path.size() > kMaxPath)
      return path + "...";
    if (!frame.object)
      path += '[' + std::to_string(frame.index) + ']';
    else if (frame.named)
      append_name(path, frame.name);
  }
  return path;
}

// Text after the string at `p`, or nullptr if it goes beyond `limit`.
const char *pass_string(const char *p, const char *limit, StringToken &token) {
  SyntaxError ignored;
  return scan_string(p, limit, token, ignored);
}

} // namespace

std::string path_at(const Text &text, const char *at) {
  std::vector<Frame> frames;
  const char *p = text.begin;
  while (p < at) {
    const char c = *p;
    if (c == '[' || c == '{') {
      frames.push_back({c == '{'});
    } else if (!frames.empty() && (c == ']' || c == '}')) {
      frames.pop_back();
    } else if (!frames.empty() && c == ',') {
      frames.back().named = false;
      ++frames.back().index;
    } else if (c == '"') {
      StringToken token;
      const char *const next = pass_string(p, at, token);
      if (next == nullptr)
        break;
      if (!frames.empty() && frames.back().object && !frames.back().named) {
        frames.back().named = true;
        frames.back().name = token.raw();
      }
      p = next;
      continue;
    }
    ++p;
  }
  return to_path(frames);
}

std::string excerpt(std::string_view text, std::size_t limit) {
  std::string out;
  bool blank = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (out.size() >= limit + 3 || (out.size() >= limit && (c & 0xC0) != 0x80))
      return out + "...";
    const bool control = c < 0x20 || c == 0x7F;
    if (!(control && blank))
      out += control ? ' ' : text[i];
    blank = control;
  }
  return out;
}

std::string excerpt_of_value(const Text &text, const char *at) {
  // A value longer than what is shown need not be read to its end.
  const char *const limit = text.end - at > 1024 ? at + 1024 : text.end;
  SyntaxError error;
  const char *const next = skip_value(at, limit, 0, {}, error);
  return excerpt(between(at, next == nullptr ? limit : next));
}

} // namespace headrace
