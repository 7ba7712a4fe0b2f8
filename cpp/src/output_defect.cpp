#include "output_defect.hpp"

#include "headrace/utf8.hpp"
#include "number_run.hpp"

namespace headrace {

namespace {

constexpr std::size_t kMaxQuoted = 256;

constexpr bool is_continuation(char c) noexcept {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

/// Precondition: there is one.
std::uint64_t find_invalid_utf8(const TensorView &tensor) noexcept {
  std::uint64_t i = 0;
  while (is_valid_utf8(tensor.string_at(i)))
    ++i;
  return i;
}

std::string holds(const NamedTensor &output, std::string_view what, std::uint64_t element) {
  std::string index;
  for (const std::uint64_t i : index_of(output.tensor.shape, element))
    index.append(index.empty() ? "" : ",").append(std::to_string(i));
  return "Output " + quoted(output.name) + " holds " + std::string(what) + " at index [" + index +
         "]; ";
}

} // namespace

std::optional<Defect> find_defect(const NamedTensor &output, const EncodeOptions &options) {
  const TensorView &tensor = output.tensor;
  const std::uint64_t elements = tensor.shape.elements();
  if (elements == 0)
    return std::nullopt;
  if (tensor.dtype == DType::kUnsupported) {
    const std::string_view dtype = output.dtype_name.empty() ? "unsupported" : output.dtype_name;
    return Defect{ErrorCode::kUnsupportedDtype, std::nullopt,
                  "Failed to write JSON value for tensor type: " + std::string(dtype) +
                      " (output " + quoted(output.name) + ")"};
  }
  if (options.non_finite == NonFinite::kError)
    if (const std::uint64_t found = find_non_finite(tensor); found != elements)
      return Defect{ErrorCode::kNonFinite, found,
                    holds(output, "NaN or an infinity", found) +
                        "JSON has no number for it, and the policy is to refuse it"};
  if (tensor.dtype == DType::kString && !is_bytes_name(output.name) &&
      !options.invalid_utf8_as_b64 && !are_all_utf8(tensor)) {
    const std::uint64_t found = find_invalid_utf8(tensor);
    return Defect{
        ErrorCode::kInvalidUtf8, found,
        holds(output, "a string that is not UTF-8", found) +
            "an output whose name ends in \"_bytes\" is written as {\"b64\": ...} instead"};
  }
  return std::nullopt;
}

std::vector<std::uint64_t> index_of(const Shape &shape, std::uint64_t element) {
  std::vector<std::uint64_t> index(shape.rank());
  for (std::size_t axis = shape.rank(); axis-- > 0; element /= shape[axis])
    index[axis] = element % shape[axis];
  return index;
}

std::string quoted(std::string_view name) {
  return std::string("\"").append(name.substr(0, kMaxQuoted)).append("\"");
}

bool are_all_utf8(const TensorView &tensor) noexcept {
  const auto offsets = tensor.string_offsets();
  const std::string_view text(reinterpret_cast<const char *>(tensor.data), offsets.back());
  // One call for all of them; then each is UTF-8 by itself if none begins within a character.
  if (!is_valid_utf8(text))
    return false;
  for (const std::uint64_t offset : offsets)
    if (offset < text.size() && is_continuation(text[offset]))
      return false;
  return true;
}

} // namespace headrace
