#include "headrace/simd.hpp"

#include <array>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace headrace {

namespace {

constexpr std::array kLevels = {Simd::kPortable, Simd::kAvx2};

#if defined(__x86_64__)
// By hand: some compilers have no name for it.
bool has_lzcnt() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x8000'0001, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_LZCNT) != 0;
}
#endif

bool has_avx2() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
         __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0 && has_lzcnt() &&
         __builtin_cpu_supports("pclmul") != 0;
#else
  return false;
#endif
}

Simd choose() noexcept {
  const std::span<const Simd> available = available_simd();
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read once, and nothing here writes the environment.
  if (const char *const wanted = std::getenv("HEADRACE_SIMD"))
    for (const Simd level : available)
      if (simd_name(level) == wanted)
        return level;
  return available.back();
}

} // namespace

std::string_view simd_name(Simd level) noexcept {
  return level == Simd::kAvx2 ? "avx2" : "portable";
}

std::span<const Simd> available_simd() noexcept {
  static const std::size_t count = has_avx2() ? 2 : 1;
  return std::span(kLevels).first(count);
}

Simd active_simd() noexcept {
  static const Simd active = choose();
  return active;
}

} // namespace headrace
