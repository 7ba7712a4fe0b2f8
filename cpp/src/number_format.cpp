#include "headrace/number_format.hpp"

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

#include "number_spelling.hpp"

namespace headrace {

namespace {

template <class Float> char *format_as_tfserving(Float value, char *out) noexcept {
  char *const limit = out + kMaxNumberChars;
  char *end = std::to_chars(out, limit, value, std::chars_format::general, 6).ptr;
  Float read = 0;
  std::from_chars(out, end, read);
  if (read != value)
    end = std::to_chars(out, limit, value, std::chars_format::general,
                        std::numeric_limits<Float>::max_digits10)
              .ptr;
  for (const char *p = out; p != end; ++p)
    if (*p == '.' || *p == 'e')
      return end;
  std::memcpy(end, ".0", 2);
  return end + 2;
}

} // namespace

char *format_float32(float value, char *out) noexcept {
  return spelling::write_float(spelling::Float32(std::bit_cast<std::uint32_t>(value)), out);
}

char *format_float64(double value, char *out) noexcept {
  return spelling::write_float(spelling::Float64(std::bit_cast<std::uint64_t>(value)), out);
}

char *format_float16(std::uint16_t bits, char *out) noexcept {
  return spelling::write_float(spelling::Float16(bits), out);
}

char *format_bfloat16(std::uint16_t bits, char *out) noexcept {
  return spelling::write_float(spelling::Bfloat16(bits), out);
}

char *format_float32_as_tfserving(float value, char *out) noexcept {
  return format_as_tfserving(value, out);
}

char *format_float64_as_tfserving(double value, char *out) noexcept {
  return format_as_tfserving(value, out);
}

char *format_uint64(std::uint64_t value, char *out) noexcept {
  return spelling::write_unsigned(value, out);
}

char *format_int64(std::int64_t value, char *out) noexcept {
  return spelling::write_signed(value, out);
}

} // namespace headrace
