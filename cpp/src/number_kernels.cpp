#include "number_kernels.hpp"

#include "number_scalar.hpp"
#include "simd_region.hpp"

namespace headrace {

namespace {

using namespace scalar;

template <class Element, const char *(*kRead)(const char *, const char *, Element &) noexcept>
const char *read_one(const char *p, const char *end, std::byte *out) noexcept {
  Element element;
  const char *const next = kRead(p, end, element);
  if (next != nullptr)
    std::memcpy(out, &element, sizeof element);
  return next;
}

template <class Element, const char *(*kRead)(const char *, const char *, Element &) noexcept>
constexpr NumberKernel kernel_of() noexcept {
  return {&read_run<Element, kRead>, &read_one<Element, kRead>};
}

template <class Int> constexpr NumberKernel integer_kernel() noexcept {
  return kernel_of<Int, &read_integer<Int>>();
}

NumberKernel portable_kernel(DType dtype) noexcept {
  switch (dtype) {
  case DType::kBool:
    return kernel_of<std::uint8_t, &read_bool>();
  case DType::kInt8:
    return integer_kernel<std::int8_t>();
  case DType::kInt16:
    return integer_kernel<std::int16_t>();
  case DType::kInt32:
    return integer_kernel<std::int32_t>();
  case DType::kInt64:
    return integer_kernel<std::int64_t>();
  case DType::kUint8:
    return integer_kernel<std::uint8_t>();
  case DType::kUint16:
    return integer_kernel<std::uint16_t>();
  case DType::kUint32:
    return integer_kernel<std::uint32_t>();
  case DType::kUint64:
    return integer_kernel<std::uint64_t>();
  case DType::kFloat16:
    return kernel_of<std::uint16_t, &read_16_bits<&to_float16, 0x7C00>>();
  case DType::kBfloat16:
    return kernel_of<std::uint16_t, &read_16_bits<&to_bfloat16, 0x7F80>>();
  case DType::kFloat32:
    return kernel_of<float, &read_float<float>>();
  case DType::kFloat64:
    return kernel_of<double, &read_float<double>>();
  case DType::kString:
  case DType::kUnsupported:
    return {};
  }
  return {};
}

} // namespace

NumberKernel number_kernel(DType dtype, [[maybe_unused]] Simd level) noexcept {
  NumberKernel kernel = portable_kernel(dtype);
#if HEADRACE_HAS_AVX2
  if (level == Simd::kAvx2)
    avx2::use_kernels(dtype, kernel);
#endif
  return kernel;
}

} // namespace headrace
