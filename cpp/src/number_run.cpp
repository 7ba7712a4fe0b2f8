#include "number_run.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "headrace/number_format.hpp"
#include "number_spelling.hpp"

namespace headrace {

namespace {

/// Room is asked for this many elements at a time: often enough to waste little, seldom enough not
/// to be felt.
constexpr std::size_t kChunk = 256;

char *put(std::string_view text, char *out) noexcept {
  if (!text.empty())
    std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

/// A float by its bits, whatever its width: how to tell and how to write it.
template <class Binary, auto kInfinity, auto kTfServing> struct FloatElement {
  using Stored = decltype(kInfinity);
  static bool is_finite(Stored bits) noexcept { return (bits & kInfinity) != kInfinity; }
  static char *write(Stored bits, const RunStyle &style, char *out) noexcept {
    if (!is_finite(bits)) [[unlikely]]
      return put(non_finite_text(bits, style), out);
    if (style.tfserving_numbers) [[unlikely]]
      return kTfServing(bits, out);
    return spelling::write_float(Binary(bits), out);
  }
  static std::string_view non_finite_text(Stored bits, const RunStyle &style) noexcept {
    constexpr Stored kFraction = ~kInfinity & (std::numeric_limits<Stored>::max() >> 1);
    if ((bits & kFraction) != 0)
      return style.nan;
    return bits == kInfinity ? style.infinity : style.minus_infinity;
  }
};

char *float32_as_tfserving(std::uint32_t bits, char *out) noexcept {
  return format_float32_as_tfserving(std::bit_cast<float>(bits), out);
}

char *float64_as_tfserving(std::uint64_t bits, char *out) noexcept {
  return format_float64_as_tfserving(std::bit_cast<double>(bits), out);
}

using Float32 = FloatElement<spelling::Float32, std::uint32_t{0x7F80'0000}, float32_as_tfserving>;
using Float64 =
    FloatElement<spelling::Float64, std::uint64_t{0x7FF0'0000'0000'0000}, float64_as_tfserving>;
// TF Serving refuses these two, so there is no spelling of its own to follow.
using Float16 = FloatElement<spelling::Float16, std::uint16_t{0x7C00}, format_float16>;
using Bfloat16 = FloatElement<spelling::Bfloat16, std::uint16_t{0x7F80}, format_bfloat16>;

template <class Int> struct IntElement {
  using Stored = Int;
  static char *write(Int value, [[maybe_unused]] const RunStyle &style, char *out) noexcept {
    if constexpr (sizeof(Int) == 8)
      if (style.quote_64_bit) [[unlikely]] {
        *out = '"';
        out = write_digits(value, out + 1);
        *out = '"';
        return out + 1;
      }
    return write_digits(value, out);
  }

private:
  static char *write_digits(Int value, char *out) noexcept {
    if constexpr (std::is_same_v<Int, std::uint8_t>)
      return spelling::write_byte(value, out);
    else if constexpr (std::is_signed_v<Int>)
      return spelling::write_signed(value, out);
    else
      return spelling::write_unsigned(value, out);
  }
};

struct BoolElement {
  using Stored = std::uint8_t;
  static char *write(std::uint8_t value, const RunStyle & /*style*/, char *out) noexcept {
    std::memcpy(out, value != 0 ? "true   " : "false  ", 8); // of one size, so no call
    return out + (value != 0 ? 4 : 5);
  }
};

/// A separator of one byte, which is all that compact text needs, or of any length.
struct ByteSeparator {
  char byte;
  char *put(char *out) const noexcept {
    *out = byte;
    return out + 1;
  }
};

struct TextSeparator {
  std::string_view text;
  char *put(char *out) const noexcept { return headrace::put(text, out); }
};

template <class Element, class Separator>
void write_separated(std::span<const typename Element::Stored> values, Separator separator,
                     const RunStyle &style, ByteBuffer &out) {
  for (std::size_t done = 0; done < values.size(); done += kChunk) {
    const auto chunk = values.subspan(done, std::min(kChunk, values.size() - done));
    char *end = out.reserve(chunk.size() * (kMaxNumberChars + style.separator.size()));
    if (done != 0)
      end = separator.put(end);
    end = Element::write(chunk.front(), style, end);
    for (const auto value : chunk.subspan(1))
      end = Element::write(value, style, separator.put(end));
    out.commit_to(end);
  }
}

template <class Element>
void write_run(const std::byte *data, std::uint64_t first, std::uint64_t count,
               const RunStyle &style, ByteBuffer &out) {
  using Stored = typename Element::Stored;
  const std::span values(reinterpret_cast<const Stored *>(data) + first, count);
  if (style.separator.size() == 1)
    write_separated<Element>(values, ByteSeparator{style.separator.front()}, style, out);
  else
    write_separated<Element>(values, TextSeparator{style.separator}, style, out);
}

template <class Element> std::uint64_t find_first_non_finite(const TensorView &tensor) noexcept {
  const auto *values = reinterpret_cast<const typename Element::Stored *>(tensor.data);
  const auto *end = values + tensor.shape.elements();
  const auto *found =
      std::find_if(values, end, [](auto bits) { return !Element::is_finite(bits); });
  return static_cast<std::uint64_t>(found - values);
}

} // namespace

RunWriter find_run_writer(DType dtype) noexcept {
  switch (dtype) {
  case DType::kBool:
    return write_run<BoolElement>;
  case DType::kInt8:
    return write_run<IntElement<std::int8_t>>;
  case DType::kInt16:
    return write_run<IntElement<std::int16_t>>;
  case DType::kInt32:
    return write_run<IntElement<std::int32_t>>;
  case DType::kInt64:
    return write_run<IntElement<std::int64_t>>;
  case DType::kUint8:
    return write_run<IntElement<std::uint8_t>>;
  case DType::kUint16:
    return write_run<IntElement<std::uint16_t>>;
  case DType::kUint32:
    return write_run<IntElement<std::uint32_t>>;
  case DType::kUint64:
    return write_run<IntElement<std::uint64_t>>;
  case DType::kFloat16:
    return write_run<Float16>;
  case DType::kBfloat16:
    return write_run<Bfloat16>;
  case DType::kFloat32:
    return write_run<Float32>;
  case DType::kFloat64:
    return write_run<Float64>;
  case DType::kString:
  case DType::kUnsupported:
    break;
  }
  return nullptr;
}

std::uint64_t find_non_finite(const TensorView &tensor) noexcept {
  switch (tensor.dtype) {
  case DType::kFloat16:
    return find_first_non_finite<Float16>(tensor);
  case DType::kBfloat16:
    return find_first_non_finite<Bfloat16>(tensor);
  case DType::kFloat32:
    return find_first_non_finite<Float32>(tensor);
  case DType::kFloat64:
    return find_first_non_finite<Float64>(tensor);
  default:
    return tensor.shape.elements();
  }
}

} // namespace headrace
