#include "headrace/error.hpp"

namespace headrace {

std::string_view name_of(ErrorCode code) noexcept {
  switch (code) {
  case ErrorCode::kSyntax:
    return "syntax";
  case ErrorCode::kInvalidUtf8:
    return "invalid_utf8";
  case ErrorCode::kTooDeep:
    return "too_deep";
  case ErrorCode::kStructure:
    return "structure";
  case ErrorCode::kUnknownSignature:
    return "unknown_signature";
  case ErrorCode::kUnknownInput:
    return "unknown_input";
  case ErrorCode::kMissingInput:
    return "missing_input";
  case ErrorCode::kDuplicateInput:
    return "duplicate_input";
  case ErrorCode::kType:
    return "type";
  case ErrorCode::kRange:
    return "range";
  case ErrorCode::kRagged:
    return "ragged";
  case ErrorCode::kShape:
    return "shape";
  case ErrorCode::kBase64:
    return "base64";
  case ErrorCode::kUnsupportedDtype:
    return "unsupported_dtype";
  case ErrorCode::kTooLarge:
    return "too_large";
  case ErrorCode::kNonFinite:
    return "non_finite";
  case ErrorCode::kBatchSize:
    return "batch_size";
  case ErrorCode::kUnknownOutput:
    return "unknown_output";
  }
  return "unknown";
}

} // namespace headrace
