#include "number_run.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "headrace/number_format.hpp"

namespace headrace {

namespace {

/// Room is asked for this many elements at a time: often enough to waste little, seldom enough not
/// to be felt.
constexpr std::uint64_t kChunk = 256;

char *put(std::string_view text, char *out) noexcept {
  if (!text.empty())
    std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

/// A float by its bits, whatever its width: how to tell and how to write it.
template <class Bits, Bits kInfinity, char *(*kShortest)(Bits, char *),
          char *(*kTfServing)(Bits, char *)>
struct FloatElement {
  using Stored = Bits;
  static bool is_finite(Bits bits) noexcept { return (bits & kInfinity) != kInfinity; }
  static char *write(Bits bits, const RunStyle &style, char *out) noexcept {
    if (is_finite(bits))
      return style.tfserving_numbers ? kTfServing(bits, out) : kShortest(bits, out);
    if ((bits & ~kInfinity & (std::numeric_limits<Bits>::max() >> 1)) != 0)
      return put(style.nan, out);
    return put((bits >> (8 * sizeof(Bits) - 1)) != 0 ? style.minus_infinity : style.infinity, out);
  }
};

template <char *(*kFormat)(float, char *)> char *by_bits(std::uint32_t bits, char *out) noexcept {
  return kFormat(std::bit_cast<float>(bits), out);
}

template <char *(*kFormat)(double, char *)> char *by_bits(std::uint64_t bits, char *out) noexcept {
  return kFormat(std::bit_cast<double>(bits), out);
}

using Float32 = FloatElement<std::uint32_t, 0x7F80'0000, by_bits<format_float32>,
                             by_bits<format_float32_as_tfserving>>;
using Float64 = FloatElement<std::uint64_t, 0x7FF0'0000'0000'0000, by_bits<format_float64>,
                             by_bits<format_float64_as_tfserving>>;
// TF Serving refuses these two, so there is no spelling of its own to follow.
using Float16 = FloatElement<std::uint16_t, 0x7C00, format_float16, format_float16>;
using Bfloat16 = FloatElement<std::uint16_t, 0x7F80, format_bfloat16, format_bfloat16>;

template <class Int> struct IntElement {
  using Stored = Int;
  static char *write(Int value, const RunStyle &style, char *out) noexcept {
    const bool quoted = sizeof(Int) == 8 && style.quote_64_bit;
    if (quoted)
      *out++ = '"';
    if constexpr (std::is_signed_v<Int>)
      out = format_int64(value, out);
    else
      out = format_uint64(value, out);
    if (quoted)
      *out++ = '"';
    return out;
  }
};

struct BoolElement {
  using Stored = std::uint8_t;
  static char *write(std::uint8_t value, const RunStyle & /*style*/, char *out) noexcept {
    return put(value != 0 ? "true" : "false", out);
  }
};

template <class Element>
void write_run(const std::byte *data, std::uint64_t first, std::uint64_t count,
               const RunStyle &style, ByteBuffer &out) {
  using Stored = typename Element::Stored;
  const auto *values = reinterpret_cast<const Stored *>(data) + first;
  const std::string_view separator = style.separator;
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t chunk = std::min(kChunk, count - done);
    char *end = out.reserve(chunk * (kMaxNumberChars + separator.size()));
    for (std::uint64_t i = 0; i < chunk; ++i) {
      if (done + i != 0)
        end = put(separator, end);
      end = Element::write(values[done + i], style, end);
    }
    out.commit_to(end);
    done += chunk;
  }
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
