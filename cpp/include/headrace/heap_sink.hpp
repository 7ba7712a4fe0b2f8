// Tensors in memory of their own: what Python gets, and bodies too large for a ring are kept in.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "headrace/tensor.hpp"

namespace headrace {

struct FreeAligned {
  void operator()(std::byte *memory) const noexcept;
};

/// Memory on kTensorAlignment. Owned by whoever holds it; freed on any thread.
using AlignedBytes = std::unique_ptr<std::byte[], FreeAligned>;

/// Keeps each tensor in an allocation of its own, which can be moved out. Single-owner.
class HeapSink final : public TensorSink {
public:
  struct Tensor {
    DType dtype = DType::kFloat32;
    Shape shape;
    AlignedBytes data; ///< null for a tensor without elements
    std::uint64_t capacity = 0;
    std::uint64_t bytes = 0;

    TensorView view() const noexcept { return {dtype, shape, data.get(), bytes}; }
  };

  /// `max_bytes`: of all tensors together, beyond which `grow` refuses.
  explicit HeapSink(std::size_t inputs, std::uint64_t max_bytes = ~std::uint64_t{0});

  std::span<std::byte> grow(std::size_t index, std::size_t used, std::size_t need) override;
  void finish(std::size_t index, DType dtype, const Shape &shape, std::uint64_t bytes) override;

  /// By the input's place in the signature.
  std::vector<Tensor> &tensors() noexcept { return tensors_; }

private:
  std::vector<Tensor> tensors_;
  std::uint64_t max_bytes_;
  std::uint64_t allocated_ = 0;
};

} // namespace headrace
