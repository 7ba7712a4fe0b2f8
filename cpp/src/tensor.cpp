#include "headrace/tensor.hpp"

#include <algorithm>
#include <cctype>

namespace headrace {

namespace {

struct Names {
  DType dtype;
  std::string_view numpy;
  std::string_view tensorflow;
};

constexpr Names kNames[] = {
    {DType::kBool, "bool", "bool"},
    {DType::kInt8, "int8", "int8"},
    {DType::kInt16, "int16", "int16"},
    {DType::kInt32, "int32", "int32"},
    {DType::kInt64, "int64", "int64"},
    {DType::kUint8, "uint8", "uint8"},
    {DType::kUint16, "uint16", "uint16"},
    {DType::kUint32, "uint32", "uint32"},
    {DType::kUint64, "uint64", "uint64"},
    {DType::kFloat16, "float16", "half"},
    {DType::kBfloat16, "bfloat16", "bfloat16"},
    {DType::kFloat32, "float32", "float"},
    {DType::kFloat64, "float64", "double"},
    {DType::kString, "string", "string"},
};

// TensorFlow's dtypes without a JSON form.
constexpr std::string_view kWithoutJson[] = {"complex64",
                                             "complex128",
                                             "qint8",
                                             "quint8",
                                             "qint16",
                                             "quint16",
                                             "qint32",
                                             "resource",
                                             "variant",
                                             "float8_e5m2",
                                             "float8_e4m3fn",
                                             "int4",
                                             "uint4",
                                             "int2",
                                             "uint2",
                                             "float8_e4m3fnuz",
                                             "float8_e4m3b11fnuz",
                                             "float8_e5m2fnuz",
                                             "float4_e2m1fn"};

} // namespace

std::string_view numpy_name(DType dtype) noexcept {
  const auto i = static_cast<std::size_t>(dtype);
  return i < std::size(kNames) ? kNames[i].numpy : "unsupported";
}

std::string_view tensorflow_name(DType dtype) noexcept {
  const auto i = static_cast<std::size_t>(dtype);
  return i < std::size(kNames) ? kNames[i].tensorflow : "unsupported";
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view key = lower;
  if (key.starts_with("dt_"))
    key.remove_prefix(3);
  for (const Names &n : kNames)
    if (key == n.numpy || key == n.tensorflow)
      return n.dtype;
  if (key == "object" || key == "bytes" || key == "str")
    return DType::kString;
  if (std::find(std::begin(kWithoutJson), std::end(kWithoutJson), key) != std::end(kWithoutJson))
    return DType::kUnsupported;
  return std::nullopt;
}

} // namespace headrace
