// A model's signatures, compiled once for decoding: inputs sorted by name, looked up by name.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headrace/tensor.hpp"

namespace headrace {

/// One signature. Immutable after construction, hence safe to share between threads.
class Signature {
public:
  using Specs = std::vector<std::pair<std::string, TensorSpec>>;

  /// Sorts all by name (bytewise). Names are unique: the caller's duty.
  Signature(std::string name, Specs inputs, Specs outputs,
            std::vector<std::string> float_features = {});

  const std::string &name() const noexcept { return name_; }
  const Specs &inputs() const noexcept { return inputs_; }
  const Specs &outputs() const noexcept { return outputs_; }
  /// Whether some output is declared without a dimension for rows, or with a fixed one.
  bool fixes_rows() const noexcept { return fixes_rows_; }
  /// Whether the Examples that the signature takes hold floats under this name, where that is
  /// known.
  bool is_float_feature(std::string_view feature) const noexcept;
  /// Place of an input in `inputs()`.
  std::optional<std::size_t> find_input(std::string_view name) const noexcept;

private:
  std::string name_;
  Specs inputs_;
  Specs outputs_;
  std::vector<std::string> float_features_;
  bool fixes_rows_;
};

/// All signatures of one model version, sorted by name. Immutable after construction.
class SignatureSet {
public:
  explicit SignatureSet(std::vector<Signature> signatures);

  const std::vector<Signature> &all() const noexcept { return signatures_; }
  std::optional<std::size_t> find(std::string_view name) const noexcept;

private:
  std::vector<Signature> signatures_;
};

} // namespace headrace
