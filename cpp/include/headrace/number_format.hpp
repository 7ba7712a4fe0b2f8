// Numbers to decimal text.
//
// Floats are written with the fewest digits that read back to the same value *of their own dtype*,
// and of those the digits nearest to the value. One rule spells them, that of Python's repr,
// applied to the decimal so found: plain notation for 1e-4 <= |x| < 1e16 and for zero, always with
// a fraction (`7.0`, `-0.0`, `16777216.0`); else one digit, the others after a point, and an
// exponent of a sign and at least two digits (`1e-05`, `3.4028235e+38`). TF Serving's own spelling,
// `%g` of C (spec: tfserving-rest section 11), is here too, for byte parity.
//
// All functions write at `out`, return the end of the text, and add no terminator. They may write
// anywhere within kMaxNumberChars bytes of `out`, also beyond the end that they return: that much
// room must be there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

/// Room that every function of this header needs; the text itself is at most 25 bytes.
inline constexpr std::size_t kMaxNumberChars = 48;

/// Precondition of all of these: the value is finite.
char *format_float32(float value, char *out) noexcept;
char *format_float64(double value, char *out) noexcept;
/// IEEE binary16, by its bits.
char *format_float16(std::uint16_t bits, char *out) noexcept;
/// The upper half of a float32's bits.
char *format_bfloat16(std::uint16_t bits, char *out) noexcept;

/// TF Serving's spelling: `%.6g` if that reads back, else `%.9g` or `%.17g`; then `.0` where there
/// is neither point nor exponent. Precondition: finite.
char *format_float32_as_tfserving(float value, char *out) noexcept;
char *format_float64_as_tfserving(double value, char *out) noexcept;

char *format_int64(std::int64_t value, char *out) noexcept;
char *format_uint64(std::uint64_t value, char *out) noexcept;

} // namespace headrace
