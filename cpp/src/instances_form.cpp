// The row form: `"instances": [row, ...]`, a row being a value or an object of named values.
#include <algorithm>

#include "declared_shape.hpp"
#include "json_place.hpp"
#include "name_hints.hpp"
#include "request_forms.hpp"
#include "text_survey.hpp"
#include "value_decoder.hpp"

namespace headrace {

namespace {

// One input and what its first row fixed for all others.
struct Column {
  TensorFiller writer;
  Extents extents;
  std::uint64_t rows = 0;
  const char *first = nullptr; ///< where its first row stands

  std::uint64_t elements() const { return extents.shape().elements(); }
};

class InstancesForm {
public:
  InstancesForm(const Signature &signature, DecodeScope &scope)
      : signature_(signature), scope_(scope), end_(scope.text.end) {
    columns_.reserve(signature.inputs().size());
    for (std::size_t i = 0; i < signature.inputs().size(); ++i)
      columns_.push_back({TensorFiller(scope, signature, i, signature.inputs().size() == 1), {}});
  }

  const char *run(const char *list, std::uint64_t &rows) {
    if (peek(list, end_) != '[')
      return whole_list(list, "Expecting 'instances' to be an list/array");
    const char *p = skip_blanks(list + 1, end_);
    if (peek(p, end_) == ']')
      return whole_list(list, "No values in 'instances' array");
    // What begins like a b64 object is taken for one, lest a long text be read twice.
    const bool objects = is_row_object(p, !takes_base64());
    if (!objects && columns_.size() > 1)
      return scope_.faults.set(ErrorCode::kStructure, p,
                               "instances is a plain list, but expecting list of objects as "
                               "multiple input tensors required as per tensorinfo_map",
                               "the inputs are " + join_names(input_names(signature_)));
    if (objects)
      p = take_objects(p);
    else if (peek(p, end_) == '[')
      p = take_values(p);
    else
      p = take_scalars(p);
    rows = row_;
    return p != nullptr && finish() ? p : nullptr;
  }

private:
  bool takes_base64() const { return columns_.size() == 1 && columns_.front().writer.is_string(); }

  // An object that names inputs, and is not base64 data. `certain`: not a guess from its beginning.
  bool is_row_object(const char *p, bool certain = true) const {
    if (peek(p, end_) != '{')
      return false;
    StringToken ignored;
    return (certain ? scan_b64_object(p, end_, ignored) : begin_b64_object(p, end_)) == nullptr;
  }

  const char *take_objects(const char *p) {
    for (bool closed = false; !closed; ++row_) {
      p = skip_blanks(p, end_);
      const char *const object = p;
      if (!is_row_object(p))
        return wrong_kind(p, "Expecting object but got list");
      p = take_members(p);
      if (p != nullptr && row_ == 0 && columns_.size() > 1 && !expect_rows_like(object, p))
        return nullptr;
      if (p != nullptr)
        p = scan_delimiter(p, end_, false, closed, scope_.faults.syntax);
      if (p == nullptr)
        return nullptr;
    }
    return p;
  }

  const char *take_members(const char *object) {
    const char *p = skip_blanks(object + 1, end_);
    bool closed = peek(p, end_) == '}';
    p += closed ? 1 : 0;
    std::size_t taken = 0;
    for (; !closed; ++taken) {
      p = skip_blanks(p, end_);
      const char *const name_at = p;
      StringToken name;
      p = scan_name(p, end_, name, scope_.faults.syntax);
      if (p != nullptr)
        p = take_member(name, name_at, skip_blanks(p, end_));
      if (p != nullptr)
        p = scan_delimiter(p, end_, true, closed, scope_.faults.syntax);
      if (p == nullptr)
        return nullptr;
    }
    return taken == columns_.size() ? p : report_missing(object);
  }

  const char *take_member(const StringToken &name, const char *name_at, const char *p) {
    std::string storage;
    const std::string_view plain = plain_text(name, end_, storage);
    const auto index = signature_.find_input(plain);
    if (!index) {
      scope_.faults.set(ErrorCode::kUnknownInput, name_at,
                        "JSON object: does not have named input: " + excerpt(plain),
                        suggest(plain, input_names(signature_)));
      return wrap(plain);
    }
    Column &column = columns_[*index];
    if (column.rows > row_) {
      scope_.faults.set(ErrorCode::kDuplicateInput, name_at,
                        "JSON object: has named input twice: " + excerpt(plain));
      return wrap(plain);
    }
    p = take_row(column, p);
    return p != nullptr ? p : wrap(plain);
  }

  const char *take_values(const char *p) {
    Column &column = columns_.front();
    for (bool closed = false; !closed; ++row_) {
      p = skip_blanks(p, end_);
      if (is_row_object(p))
        return wrong_kind(p, "Expecting value/list but got object");
      p = take_row(column, p);
      if (p == nullptr)
        return wrap();
      if (column.extents.rank == 1) { // rows like it
        const std::uint64_t more =
            column.writer.take_rows(p, column.extents.dims[0], Extents::kUnknown);
        row_ += more;
        column.rows += more;
      }
      p = scan_delimiter(p, end_, false, closed, scope_.faults.syntax);
      if (p == nullptr)
        return nullptr;
    }
    return p;
  }

  // Rows that are scalars: the list of instances is one flat run.
  const char *take_scalars(const char *p) {
    Column &column = columns_.front();
    column.first = p;
    column.extents.rank = 0;
    const TensorFiller::ListRun run = column.writer.take_list(p, Extents::kUnknown);
    row_ = column.rows = column.writer.count();
    if (run.next != nullptr && run.closed)
      return run.next;
    if (run.next != nullptr)
      return explain_row(column, run.next) != nullptr ? nullptr : wrap();
    if (scope_.faults.semantic && is_row_object(scope_.faults.semantic->value)) {
      if (row_ == 0) { // the guess was wrong
        scope_.faults.semantic.reset();
        column.extents = {};
        return take_objects(p);
      }
      return wrong_kind(scope_.faults.semantic->value, "Expecting value/list but got object");
    }
    return wrap();
  }

  const char *take_row(Column &column, const char *p) {
    const char *next = nullptr;
    if (column.rows == 0)
      column.first = p;
    if (column.rows != 0 && column.extents.rank == 0 && peek(p, end_) != '[')
      next = column.writer.take_leaf(p);
    else
      next = decode_value(p, column.writer, column.extents, kMaxRank - 1, scope_);
    if (next == nullptr && column.rows != 0 && scope_.faults.syntax.fault == SyntaxFault::kNone)
      return explain_row(column, p);
    ++column.rows;
    return next;
  }

  // The row at `p` failed to be like the first one. Decoded on its own it shows which message TF
  // Serving has for it: one about the row itself, or one that compares it with the first.
  const char *explain_row(Column &column, const char *p) {
    const std::uint64_t expected = column.elements();
    column.writer.rewind(column.rows * expected);
    scope_.faults.semantic.reset();
    Extents own;
    if (decode_value(p, column.writer, own, kMaxRank - 1, scope_) == nullptr)
      return nullptr;
    const std::uint64_t found = own.shape().elements();
    const std::string hint =
        "input '" + column.writer.name() + "'; rows share the shape of instances[0]";
    if (found != expected)
      return scope_.faults.set(ErrorCode::kRagged, p,
                               "Expecting tensor size: " + std::to_string(expected) +
                                   " but got: " + std::to_string(found),
                               hint);
    return scope_.faults.set(ErrorCode::kRagged, p,
                             "Expecting shape " + to_text(column.extents.shape()) +
                                 " but got: " + to_text(own.shape()),
                             hint);
  }

  // Room for all rows at once: a later row has at least as many commas as the first one, and one
  // more parts it from its neighbour.
  bool expect_rows_like(const char *first, const char *last) {
    const std::uint64_t commas = survey_text(between(first, last), scope_.options.simd).commas;
    const std::uint64_t most = 1 + (scope_.commas - commas) / (commas + 1);
    for (Column &column : columns_)
      if (!column.writer.is_string() && !column.writer.expect(most * column.elements(), first))
        return false;
    return true;
  }

  bool finish() {
    for (Column &column : columns_) {
      const Shape row = column.extents.shape();
      Shape shape;
      shape.push_back(row_);
      for (const std::uint64_t extent : row.dims())
        shape.push_back(extent);
      if (!check_declared(column.writer, shape, column.first, scope_) ||
          !column.writer.finish(shape, column.first))
        return false;
    }
    return true;
  }

  const char *whole_list(const char *list, const char *what) {
    return scope_.faults.set(ErrorCode::kStructure, list,
                             "JSON Value: " + excerpt_of_value(scope_.text, list) + " " + what);
  }

  const char *wrong_kind(const char *p, const char *what) {
    return scope_.faults.set(ErrorCode::kStructure, p,
                             std::string(what) + " at item " + std::to_string(row_) +
                                 " of input list");
  }

  const char *report_missing(const char *object) {
    std::string missing;
    for (const Column &column : columns_)
      if (column.rows <= row_)
        missing.append(missing.empty() ? "" : ", ")
            .append(column.writer.name() + " (" + to_text(column.writer.spec()) + ")");
    return scope_.faults.set(
        ErrorCode::kMissingInput, object,
        "Failed to process element: " + std::to_string(row_) +
            " of 'instances' list. JSON object: " + excerpt_of_value(scope_.text, object) +
            " keys must be equal to: " + join_names(input_names(signature_)),
        "missing " + missing);
  }

  // Puts TF Serving's words about the element before a semantic fault.
  const char *wrap(std::optional<std::string_view> key = std::nullopt) {
    if (!scope_.faults.semantic || scope_.faults.syntax.fault != SyntaxFault::kNone)
      return nullptr;
    Fault &fault = *scope_.faults.semantic;
    const bool unimplemented = fault.code == ErrorCode::kUnsupportedDtype;
    fault.message = "Failed to process element: " + std::to_string(row_) +
                    (key ? " key: " + excerpt(*key) : "") + " of 'instances' list. Error: " +
                    (unimplemented ? "UNIMPLEMENTED: " : "INVALID_ARGUMENT: ") + fault.message;
    return nullptr;
  }

  const Signature &signature_;
  DecodeScope &scope_;
  const char *end_;
  std::vector<Column> columns_;
  std::uint64_t row_ = 0; ///< the one being decoded; afterwards how many there are
};

} // namespace

const char *decode_instances(const char *p, const Signature &signature, DecodeScope &scope,
                             std::uint64_t &rows) {
  return InstancesForm(signature, scope).run(p, rows);
}

} // namespace headrace
