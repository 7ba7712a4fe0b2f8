// The wire format of tf.train.Example, as far as it is needed to write one.
//
//     Example     { Features features = 1; }
//     Features    { map<string, Feature> feature = 1; }   an entry: { string key = 1; Feature value
//     = 2; } Feature     { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } } BytesList   {
//     repeated bytes value = 1; } FloatList   { repeated float value = 1 [packed]; } Int64List   {
//     repeated int64 value = 1 [packed]; }
//
// Messages carry their length before them, so each is finished before the one around it: values in
// `values_`, entries in `entries_`, whole messages in the caller's buffer.
// Spec: Protocol Buffers, encoding; TensorFlow's example.proto and feature.proto.
#pragma once

#include <cstdint>
#include <string_view>

#include "headrace/byte_buffer.hpp"

namespace headrace {

/// Kinds of a Feature; values are the numbers of its fields.
enum class FeatureKind : std::uint8_t { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

/// As TF Serving's messages have it.
std::string_view name_of(FeatureKind kind) noexcept;

/// Writes Example messages, one after another. Single-owner.
class ExampleWriter {
public:
  /// `out` outlives the writer; finished messages are appended to it.
  explicit ExampleWriter(ByteBuffer &out) noexcept : out_(out) {}

  void begin_example() noexcept { entries_.clear(); }
  void begin_feature() noexcept;
  /// kNone until the first value.
  FeatureKind kind() const noexcept { return kind_; }
  // Precondition of each: kind() is none, or the same.
  void add_bytes(std::string_view bytes);
  void add_float(float value);
  void add_int64(std::int64_t value);
  /// A feature of the same name written before in this example counts no more: that is the format's
  /// own rule.
  void end_feature(std::string_view name);
  void end_example();

private:
  ByteBuffer &out_;
  ByteBuffer entries_; // of the example
  ByteBuffer values_;  // of the feature
  FeatureKind kind_ = FeatureKind::kNone;
};

} // namespace headrace
