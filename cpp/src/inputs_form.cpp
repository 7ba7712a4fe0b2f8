// The columnar form: `"inputs": value` or `"inputs": {"name": value, ...}`.
#include <algorithm>

#include "declared_shape.hpp"
#include "json_place.hpp"
#include "name_hints.hpp"
#include "request_forms.hpp"
#include "value_decoder.hpp"

namespace headrace {

namespace {

class InputsForm {
public:
  InputsForm(const Signature &signature, DecodeScope &scope)
      : signature_(signature), scope_(scope), end_(scope.text.end),
        seen_(signature.inputs().size(), false) {}

  const char *run(const char *p, std::uint64_t &rows) {
    StringToken ignored;
    const bool named = peek(p, end_) == '{' && scan_b64_object(p, end_, ignored) == nullptr;
    if (!named && seen_.size() > 1)
      return scope_.faults.set(ErrorCode::kStructure, p,
                               "inputs is a plain value/list, but expecting an object as multiple "
                               "input tensors required "
                               "as per tensorinfo_map",
                               "the inputs are " + join_names(input_names(signature_)));
    p = named ? take_members(p) : take_value(p, 0);
    rows = rows_.value_or(0);
    return p;
  }

private:
  const char *take_members(const char *object) {
    const char *p = skip_blanks(object + 1, end_);
    bool closed = peek(p, end_) == '}';
    p += closed ? 1 : 0;
    while (!closed) {
      StringToken name;
      p = scan_name(skip_blanks(p, end_), end_, name, scope_.faults.syntax);
      if (p != nullptr)
        p = take_member(name, skip_blanks(p, end_));
      if (p != nullptr)
        p = scan_delimiter(p, end_, true, closed, scope_.faults.syntax);
      if (p == nullptr)
        return nullptr;
    }
    const auto missing = std::find(seen_.begin(), seen_.end(), false);
    return missing == seen_.end() ? p : report_missing(object, missing - seen_.begin());
  }

  // Names that the signature does not have are passed over, and so are repetitions: TF Serving
  // takes the first.
  const char *take_member(const StringToken &name, const char *p) {
    std::string storage;
    const auto index = signature_.find_input(plain_text(name, end_, storage));
    if (index && !seen_[*index])
      return take_value(p, *index);
    return skip_value(p, end_, 2, {scope_.options.max_depth}, scope_.faults.syntax);
  }

  const char *take_value(const char *p, std::size_t index) {
    seen_[index] = true;
    TensorFiller writer(scope_, signature_, index, seen_.size() == 1);
    Extents extents;
    const char *const next = decode_value(p, writer, extents, kMaxRank, scope_);
    if (next == nullptr)
      return nullptr;
    const Shape shape = extents.shape();
    if (!check_declared(writer, shape, p, scope_) || !writer.finish(shape, p))
      return nullptr;
    const std::uint64_t first = shape.rank() == 0 ? 0 : shape[0];
    rows_ = rows_.value_or(first) == first ? first : 0;
    return next;
  }

  const char *report_missing(const char *object, std::ptrdiff_t index) {
    const auto &[name, spec] = signature_.inputs()[static_cast<std::size_t>(index)];
    return scope_.faults.set(
        ErrorCode::kMissingInput, object, "Missing named input: " + name + " in 'inputs' object.",
        "it takes " + to_text(spec) + "; the inputs are " + join_names(input_names(signature_)));
  }

  const Signature &signature_;
  DecodeScope &scope_;
  const char *end_;
  std::vector<bool> seen_;
  std::optional<std::uint64_t> rows_; ///< dim 0 so far; 0 once two differ
};

} // namespace

const char *decode_inputs(const char *p, const Signature &signature, DecodeScope &scope,
                          std::uint64_t &rows) {
  return InputsForm(signature, scope).run(p, rows);
}

} // namespace headrace
