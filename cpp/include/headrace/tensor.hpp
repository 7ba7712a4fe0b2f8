// Tensors as the core sees them: a dtype, a shape, and bytes that somebody else owns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

/// Tensor data starts on a multiple of this: what TensorFlow needs to take a buffer without a copy.
inline constexpr std::size_t kTensorAlignment = 64;
/// NumPy 2's limit.
inline constexpr std::size_t kMaxRank = 64;

/// Values are part of the ring's record layout: never renumber.
enum class DType : std::uint8_t {
  kBool = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kUint8 = 5,
  kUint16 = 6,
  kUint32 = 7,
  kUint64 = 8,
  kFloat16 = 9,
  kBfloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
  kString = 13,
  kUnsupported =
      14, ///< named by a signature (`qint8`, `complex64`, `resource`, ...) but without a JSON form
};

/// Bytes of one element; 0 for kString and kUnsupported.
constexpr std::size_t item_size(DType dtype) noexcept {
  switch (dtype) {
  case DType::kBool:
  case DType::kInt8:
  case DType::kUint8:
    return 1;
  case DType::kInt16:
  case DType::kUint16:
  case DType::kFloat16:
  case DType::kBfloat16:
    return 2;
  case DType::kInt32:
  case DType::kUint32:
  case DType::kFloat32:
    return 4;
  case DType::kInt64:
  case DType::kUint64:
  case DType::kFloat64:
    return 8;
  case DType::kString:
  case DType::kUnsupported:
    return 0;
  }
  return 0;
}

/// NumPy's name ("float32"; "string" for kString, "bfloat16" for kBfloat16).
std::string_view numpy_name(DType dtype) noexcept;
/// TensorFlow's name as in TF Serving's messages ("float", "double", "half", "int32", "string",
/// ...).
std::string_view tensorflow_name(DType dtype) noexcept;
/// Accepts NumPy's names, TensorFlow's names and "DT_..." names, in any of their usual spellings.
std::optional<DType> dtype_from_name(std::string_view name) noexcept;

/// Extents of a tensor, outermost first, at most kMaxRank of them. Trivially copyable so that it
/// can live in a record.
class Shape {
public:
  Shape() = default;
  /// Precondition: dims.size() <= kMaxRank.
  explicit Shape(std::span<const std::uint64_t> dims) noexcept : rank_(dims.size()) {
    for (std::size_t i = 0; i < rank_; ++i)
      dims_[i] = dims[i];
  }
  std::size_t rank() const noexcept { return rank_; }
  std::span<const std::uint64_t> dims() const noexcept { return {dims_.data(), rank_}; }
  std::uint64_t operator[](std::size_t i) const noexcept { return dims_[i]; }
  /// Product of the extents, 1 for rank 0.
  std::uint64_t elements() const noexcept {
    std::uint64_t n = 1;
    for (std::size_t i = 0; i < rank_; ++i)
      n *= dims_[i];
    return n;
  }
  /// Precondition: rank() < kMaxRank.
  void push_back(std::uint64_t extent) noexcept { dims_[rank_++] = extent; }
  void set(std::size_t i, std::uint64_t extent) noexcept { dims_[i] = extent; }
  friend bool operator==(const Shape &a, const Shape &b) noexcept {
    if (a.rank_ != b.rank_)
      return false;
    for (std::size_t i = 0; i < a.rank_; ++i)
      if (a.dims_[i] != b.dims_[i])
        return false;
    return true;
  }

private:
  std::size_t rank_ = 0;
  std::array<std::uint64_t, kMaxRank> dims_{};
};

/// A tensor in memory that the view does not own. Row-major, native byte order.
///
/// Numbers: `elements() * item_size` bytes. Strings of n elements: their bytes one after another,
/// padding to a multiple of 8, then n + 1 u64 offsets into those bytes, the first 0 and the last
/// their total. The table stands last so that a decoder can write the bytes in place before it
/// knows n. `bytes` counts all of it; the table starts at `bytes - 8 * (n + 1)`.
struct TensorView {
  DType dtype = DType::kFloat32;
  Shape shape;
  const std::byte *data = nullptr;
  std::uint64_t bytes = 0;

  std::span<const std::uint64_t> string_offsets() const noexcept {
    const std::uint64_t n = shape.elements() + 1;
    return {reinterpret_cast<const std::uint64_t *>(data + bytes - 8 * n), n};
  }
  std::string_view string_at(std::uint64_t i) const noexcept {
    const auto offsets = string_offsets();
    return {reinterpret_cast<const char *>(data) + offsets[i], offsets[i + 1] - offsets[i]};
  }
};

/// A tensor with its name in the signature.
struct NamedTensor {
  std::string_view name;
  TensorView tensor;
  std::string_view dtype_name = {}; ///< for messages about kUnsupported; empty: not known
};

/// What a signature declares of one input or output.
struct TensorSpec {
  DType dtype = DType::kFloat32;
  std::string dtype_name;                         ///< as declared, for messages about kUnsupported
  bool known_rank = false;                        ///< false: `dims` means nothing
  std::vector<std::optional<std::uint64_t>> dims; ///< nullopt: free
};

/// Where a decoder puts tensors. Implementations: the heap (results for Python), a ring record, a
/// memfd. Single-owner; not thread-safe.
class TensorSink {
public:
  virtual ~TensorSink() = default;
  /// Makes room for `need` bytes for tensor `index` (its place among the signature's inputs, sorted
  /// by name) and keeps the first `used` bytes already written. The memory starts on
  /// kTensorAlignment, has at least `need` writable bytes (the span may be longer) and stays valid
  /// until the next `grow` of the same index or `finish`. An empty span: beyond what the sink
  /// takes; the decoder reports kTooLarge.
  virtual std::span<std::byte> grow(std::size_t index, std::size_t used, std::size_t need) = 0;
  /// Tensor `index` is complete: `bytes` bytes at the place of its last `grow` (none, if it was
  /// never grown).
  virtual void finish(std::size_t index, DType dtype, const Shape &shape, std::uint64_t bytes) = 0;
};

} // namespace headrace
