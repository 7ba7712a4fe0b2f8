// Which instruction set the kernels use: chosen once, at the first use.
//
// A kernel with variants has one function that takes a Simd and yields the variant for it, so that
// tests can run each that this processor has; everybody else passes active_simd(). A variant lives
// in a file of its own, x_avx2.cpp beside x.cpp, between HEADRACE_AVX2_BEGIN and HEADRACE_AVX2_END
// (cpp/src/simd_region.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace headrace {

enum class Simd : std::uint8_t {
  kPortable, ///< plain C++
  kAvx2,     ///< x86-64 with AVX2, FMA, BMI1, BMI2, LZCNT and carry-less multiplication
};

/// "portable" or "avx2".
std::string_view simd_name(Simd level) noexcept;

/// What this processor runs, the slowest first; never empty.
std::span<const Simd> available_simd() noexcept;

/// The fastest available, unless the environment's HEADRACE_SIMD names another available one. Read
/// once; thread-safe.
Simd active_simd() noexcept;

} // namespace headrace
