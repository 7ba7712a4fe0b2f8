#include "value_decoder.hpp"

#include <string>

#include "json_place.hpp"

namespace headrace {

namespace {

std::string level_fault(std::uint64_t size, std::size_t level, std::uint64_t expected) {
  return "Encountered list at unexpected size: " + std::to_string(size) +
         " at level: " + std::to_string(level) + " expected size: " + std::to_string(expected);
}

class ValueWalk {
public:
  ValueWalk(TensorFiller &writer, Extents &extents, std::size_t max_rank, DecodeScope &scope)
      : writer_(writer), extents_(extents), max_rank_(max_rank), scope_(scope),
        end_(scope.text.end) {
    if (!extents.known())
      extents_.dims.fill(Extents::kUnknown);
  }

  const char *run(const char *p) {
    for (;;) {
      p = skip_blanks(p, end_);
      p = peek(p, end_) == '[' ? open_list(p) : leaf(p);
      while (p != nullptr && closed_) {
        --level_;
        if (level_ == 0)
          return p;
        ++counts_[level_ - 1];
        if (level_ + 1 == extents_.rank)
          p = take_rows(p);
        p = after_element(p);
      }
      if (p == nullptr || level_ == 0)
        return p;
    }
  }

private:
  // `p` at "[": opens it, and takes its elements if it is an innermost one. `closed_` afterwards:
  // the text stands after a "]", else at the first byte of an element.
  const char *open_list(const char *p) {
    closed_ = false;
    if (level_ >= extents_.rank)
      return fail(ErrorCode::kRagged, p,
                  "Encountered list at unexpected level: " + std::to_string(level_) +
                      " expected < " + std::to_string(extents_.rank));
    if (level_ == max_rank_)
      return scope_.faults.set(ErrorCode::kTooDeep, p,
                               "JSON Value is nested deeper than a tensor may be: rank " +
                                   std::to_string(kMaxRank) + " is the limit");
    starts_[level_] = p;
    counts_[level_] = 0;
    ++level_;
    p = skip_blanks(p + 1, end_);
    const char c = peek(p, end_);
    if (c == ']') {
      if (!extents_.known())
        extents_.rank = level_;
      return close_list(p + 1);
    }
    if (!extents_.known() && c != '[')
      extents_.rank = level_;
    return level_ == extents_.rank ? take_innermost(p) : p;
  }

  const char *take_innermost(const char *p) {
    const std::size_t level = level_ - 1;
    const std::uint64_t before = writer_.count();
    const TensorFiller::ListRun run = writer_.take_list(p, extents_.dims[level]);
    counts_[level] += writer_.count() - before;
    if (run.next == nullptr)
      return refine();
    if (run.closed)
      return close_list(run.next);
    if (counts_[level] == extents_.dims[level])
      return too_long(run.next);
    return run.next; // at a list among the elements, which open_list refuses
  }

  // The text stands after the "]" of an innermost list: passes over those like it.
  const char *take_rows(const char *p) {
    const std::size_t level = level_ - 1;
    counts_[level] +=
        writer_.take_rows(p, extents_.dims[level_], extents_.dims[level] - counts_[level]);
    return p;
  }

  // The text stands after the "]" of the innermost open list: compares its length.
  const char *close_list(const char *p) {
    closed_ = true;
    const std::size_t level = level_ - 1;
    std::uint64_t &expected = extents_.dims[level];
    if (expected == Extents::kUnknown)
      expected = counts_[level];
    if (counts_[level] == expected)
      return p;
    --level_;
    return fail(ErrorCode::kRagged, starts_[level], level_fault(counts_[level], level, expected),
                p);
  }

  const char *leaf(const char *p) {
    closed_ = false;
    if (!extents_.known())
      extents_.rank = level_;
    if (level_ != extents_.rank) {
      SyntaxError ignored;
      if (skip_value(p, end_, 0, {}, ignored) == nullptr) {
        scope_.faults.syntax = ignored;
        return nullptr;
      }
      return fail(ErrorCode::kRagged, p,
                  "JSON Value: " + excerpt_of_value(scope_.text, p) +
                      " found at incorrect level: " + std::to_string(level_ + 1) +
                      " in the JSON DOM. Expected at level: " + std::to_string(extents_.rank));
    }
    return writer_.take_leaf(p); // of a scalar: innermost lists take their own
  }

  const char *after_element(const char *p) {
    p = scan_delimiter(p, end_, false, closed_, scope_.faults.syntax);
    if (p == nullptr)
      return nullptr;
    if (closed_)
      return close_list(p);
    if (counts_[level_ - 1] == extents_.dims[level_ - 1])
      return too_long(p);
    return p;
  }

  // An element beyond the length of the innermost open list stands at `p`.
  const char *too_long(const char *p) {
    const std::size_t level = level_ - 1;
    const std::uint64_t expected = extents_.dims[level];
    std::uint64_t size = counts_[level];
    const char *const next = measure(p, size);
    if (next == nullptr)
      return nullptr;
    --level_;
    return fail(ErrorCode::kRagged, starts_[level], level_fault(size, level, expected), next);
  }

  // Passes over the rest of a list, from an element on; adds its elements to `size`.
  const char *measure(const char *p, std::uint64_t &size) {
    for (bool closed = false; !closed;) {
      p = skip_value(p, end_, 0, {}, scope_.faults.syntax);
      if (p != nullptr)
        p = scan_delimiter(p, end_, false, closed, scope_.faults.syntax);
      if (p == nullptr)
        return nullptr;
      ++size;
    }
    return p;
  }

  const char *fail(ErrorCode code, const char *at, std::string message,
                   const char *after = nullptr) {
    scope_.faults.set(code, at, std::move(message), "input '" + writer_.name() + "'");
    return refine(after);
  }

  // TF Serving sees a list's length before its elements: where a list around the fault has a wrong
  // length too, that is what it reports, the outermost first. `after`: the text behind the faulty
  // list, or nullptr for a fault in an element of the innermost open list.
  const char *refine(const char *after = nullptr) {
    if (scope_.faults.syntax.fault != SyntaxFault::kNone || !scope_.faults.semantic)
      return nullptr;
    const Fault fault = *scope_.faults.semantic;
    const char *p = after;
    for (std::size_t level = level_; level-- > 0;) {
      std::uint64_t size = counts_[level];
      if (p == nullptr) {
        p = measure(fault.value, size);
      } else {
        bool closed = false;
        ++size;
        p = scan_delimiter(p, end_, false, closed, scope_.faults.syntax);
        if (p != nullptr && !closed)
          p = measure(p, size);
      }
      if (p == nullptr)
        return nullptr; // a syntax error, which is set and wins
      const std::uint64_t expected = extents_.dims[level];
      if (expected != Extents::kUnknown && size != expected)
        scope_.faults.set(ErrorCode::kRagged, starts_[level], level_fault(size, level, expected),
                          fault.hint);
    }
    return nullptr;
  }

  TensorFiller &writer_;
  Extents &extents_;
  std::size_t max_rank_;
  DecodeScope &scope_;
  const char *end_;
  bool closed_ = false;
  std::size_t level_ = 0; ///< lists that are open
  std::array<const char *, kMaxRank> starts_;
  std::array<std::uint64_t, kMaxRank> counts_; ///< elements so far of each open list
};

} // namespace

const char *decode_value(const char *p, TensorFiller &writer, Extents &extents,
                         std::size_t max_rank, DecodeScope &scope) {
  return ValueWalk(writer, extents, max_rank, scope).run(p);
}

} // namespace headrace
