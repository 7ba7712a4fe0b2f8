// One tensor while it is being decoded: takes elements in order and keeps them in a TensorSink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decode_fault.hpp"
#include "headrace/json_decode.hpp"
#include "headrace/signature.hpp"
#include "json_string.hpp"
#include "number_kernels.hpp"
#include "utf8_check.hpp"

namespace headrace {

/// What every part of one decode shares.
struct DecodeScope {
  Text text;
  const DecodeOptions &options;
  TensorSink &sink;
  /// Of the whole body: no tensor has more elements than one more than these. Not known, and not
  /// used, where all inputs are strings.
  std::uint64_t commas;
  Utf8Check utf8;
  Faults faults;
};

/// Single-owner; lives as long as its scope and signature.
class TensorFiller {
public:
  /// `alone`: no other tensor takes elements meanwhile, so that room for all that the body can hold
  /// is asked for at once.
  TensorFiller(DecodeScope &scope, const Signature &signature, std::size_t index, bool alone);

  const std::string &name() const noexcept { return name_; }
  const TensorSpec &spec() const noexcept { return spec_; }
  bool is_string() const noexcept { return spec_.dtype == DType::kString; }
  std::uint64_t count() const noexcept { return count_; }

  /// Takes the non-list value at `p`; yields the text after it, or nullptr with a fault set.
  const char *take_leaf(const char *p);
  /// Takes the elements of an innermost list, at most `limit`, from its first element on. Stops
  /// after `]` (closed), or at an element beyond the limit or that is a list.
  struct ListRun {
    const char *next; ///< nullptr: a fault is set
    bool closed;
  };
  ListRun take_list(const char *p, std::uint64_t limit);

  /// Takes as many whole lists of `length` elements each as it easily can, at most `limit`, `p`
  /// being behind the `]` of one like them; afterwards `p` is behind the last one's. Yields how
  /// many. What is left is for take_list, faults included.
  std::uint64_t take_rows(const char *&p, std::uint64_t length, std::uint64_t limit);

  /// Forgets all elements after the first `count`.
  void rewind(std::uint64_t count) noexcept;
  /// A hint: a well-formed body has at most this many elements. False with a fault at `at`: the
  /// sink is full.
  bool expect(std::uint64_t count, const char *at);
  /// Hands the tensor to the sink. False with a fault set: the sink is full.
  bool finish(const Shape &shape, const char *at);

private:
  bool make_room(std::uint64_t bytes);
  const char *no_room(const char *at);
  const char *take_number(const char *p);
  const char *take_literal(const char *p);
  const char *take_string(const char *p);
  const char *take_object(const char *p);
  const char *take_plain_base64(const char *p);
  const char *take_base64(const char *p, const char *next, const StringToken &token);
  const char *refuse(const char *p, const char *json_type);
  const char *refuse_number(const char *p, const Decimal &decimal);
  void add_string(std::uint64_t bytes);
  bool put_float(double value, const Decimal *decimal);
  bool put_number(const Decimal &decimal);
  template <class T> void put(T value) noexcept;

  DecodeScope &scope_;
  const std::string &name_;
  const TensorSpec &spec_;
  std::size_t index_;
  bool alone_;
  std::size_t item_size_; ///< 0 for strings
  NumberKernel kernel_;
  std::span<std::byte> room_;
  std::uint64_t used_ = 0;          ///< bytes written
  std::uint64_t count_ = 0;         ///< elements taken
  std::uint32_t row_misses_ = 0;    ///< how often in a row take_rows took none
  std::vector<std::uint64_t> ends_; ///< of strings: where each one ends
};

/// What a dtype takes, in words for messages.
std::string expected_of(const TensorSpec &spec);

} // namespace headrace
