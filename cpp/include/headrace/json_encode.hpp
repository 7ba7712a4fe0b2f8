// Tensors to the JSON bodies of TF Serving's REST API.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headrace/byte_buffer.hpp"
#include "headrace/error.hpp"
#include "headrace/format.hpp"
#include "headrace/json_write.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// What becomes of NaN and the infinities, for which JSON has no number.
enum class NonFinite : std::uint8_t {
  kToken,  ///< the bare tokens `NaN`, `Infinity`, `-Infinity`, as TF Serving writes and reads them
  kNull,   ///< `null`
  kString, ///< the same names between quotes
  kError,  ///< kNonFinite, naming the output and the index
};

struct EncodeOptions {
  /// TF Serving's own bytes: its layout and its spelling of numbers.
  bool pretty = false;
  NonFinite non_finite = NonFinite::kToken;
  /// int64 and uint64 between quotes, for readers whose numbers are doubles.
  bool int64_as_string = false;
  /// A string that is not UTF-8 becomes {"b64": ...}; else an error.
  bool invalid_utf8_as_b64 = false;
  /// The outputs wanted; empty: all of them.
  std::vector<std::string> outputs{};
};

/// Appends the body of a predict response to `out`: `{"predictions": [...]}` or `{"outputs": ...}`.
/// Outputs come in the order of their names (bytewise), whatever the order given. If only one is
/// written, by what the model gave or by the filter, its value stands without a name. Thread-safe;
/// blocks nowhere.
///
/// Errors, after which `out` holds what it held before: kStructure (no outputs), kUnknownOutput
/// (the filter names one that is not there), kShape (row format, a scalar output), kBatchSize (row
/// format, unequal first dimensions), kUnsupportedDtype, kNonFinite, kInvalidUtf8. `path` is where
/// the value would have stood in the body. Spec: tfserving-rest sections 10 to 12.
Result<std::monostate> encode_predict(std::span<const NamedTensor> outputs, Format format,
                                      const EncodeOptions &options, ByteBuffer &out);

/// What a classify method found: for each example, some (label, score) pairs.
struct Classifications {
  std::span<const std::uint64_t>
      counts; ///< pairs of each example; their sum is the elements of both tensors
  std::optional<TensorView>
      labels; ///< kString, example after example; absent: every label is empty
  std::optional<TensorView> scores; ///< kFloat32, likewise; absent: every score is 0.0
};

/// Appends `{"results": [[[label, score], ...], ...]}`. `options.outputs` plays no part.
/// Errors as above, and kStructure where there is no example. Spec: tfserving-rest section 13.
Result<std::monostate> encode_classify(const Classifications &results, const EncodeOptions &options,
                                       ByteBuffer &out);

/// Appends `{"results": [value, ...]}` of a kFloat32 tensor of shape [n] or [n, 1]; otherwise as
/// `encode_classify`.
Result<std::monostate> encode_regress(const TensorView &values, const EncodeOptions &options,
                                      ByteBuffer &out);

/// Appends `{"error": "<message>"}` in TF Serving's layout. Strict JSON whatever bytes the message
/// holds: what is not UTF-8 becomes U+FFFD. Spec: tfserving-rest section 3.
void write_error_body(std::string_view message, ByteBuffer &out);

} // namespace headrace
