// Expected failures are values: an `Error` says what kind, where in the body, at which JSON path,
// and why.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace headrace {

/// What went wrong. The Python face shows the name in snake case without the `k` (see `name_of`).
enum class ErrorCode : std::uint16_t {
  kSyntax,      ///< not JSON
  kInvalidUtf8, ///< a string holds bytes that are not UTF-8
  kTooDeep,     ///< nesting beyond the limit
  kStructure,   ///< JSON, but not the shape of a request: keys missing, both formats, wrong kind of
                ///< value
  kUnknownSignature, ///< `signature_name` is not among the model's signatures
  kUnknownInput,     ///< an input is named that the signature does not have
  kMissingInput,     ///< an input of the signature is missing
  kDuplicateInput,   ///< an input is given twice in one instance
  kType,             ///< a JSON value of a type that the dtype does not take
  kRange,            ///< a number outside the dtype's range
  kRagged,           ///< lists that do not form a tensor
  kShape,            ///< a tensor that does not fit the declared shape
  kBase64,           ///< text that is not base64
  kUnsupportedDtype, ///< a dtype without a JSON form
  kTooLarge,         ///< more bytes than the sink takes
  kNonFinite,        ///< NaN or an infinity where the policy forbids it
  kBatchSize,        ///< outputs that do not share a first dimension in row format
  kUnknownOutput,    ///< an output is asked for that the model did not give
};

/// The code's name as the Python face gives it, such as "unknown_input".
std::string_view name_of(ErrorCode code) noexcept;

/// No place in the body applies.
inline constexpr std::uint64_t kNoOffset = ~std::uint64_t{0};

struct Error {
  ErrorCode code;
  std::uint64_t offset = kNoOffset; ///< byte in the body; kNoOffset where none applies
  std::string path; ///< JSON path such as `instances[3].image[0]`; empty: the whole body
  std::string
      message; ///< what was expected and found, TF Serving's literal text first where it has one
};

/// A value or an `Error`. Look before you take: `value()` on an error is misuse.
template <class T> class [[nodiscard]] Result {
public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {} // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {} // NOLINT(google-explicit-constructor)

  explicit operator bool() const noexcept { return state_.index() == 0; }
  T &value() & { return std::get<0>(state_); }
  const T &value() const & { return std::get<0>(state_); }
  T &&value() && { return std::get<0>(std::move(state_)); }
  const Error &error() const & { return std::get<1>(state_); }
  Error &&error() && { return std::get<1>(std::move(state_)); }

private:
  std::variant<T, Error> state_;
};

} // namespace headrace
