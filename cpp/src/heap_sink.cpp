#include "headrace/heap_sink.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace headrace {

void FreeAligned::operator()(std::byte *memory) const noexcept { std::free(memory); }

HeapSink::HeapSink(std::size_t inputs, std::uint64_t max_bytes)
    : tensors_(inputs), max_bytes_(max_bytes) {}

std::span<std::byte> HeapSink::grow(std::size_t index, std::size_t used, std::size_t need) {
  if (index >= tensors_.size())
    tensors_.resize(index + 1);
  Tensor &tensor = tensors_[index];
  if (need > tensor.capacity) {
    const std::uint64_t size = (need + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    const std::uint64_t others = allocated_ - tensor.capacity;
    if (size < need || size > max_bytes_ || others > max_bytes_ - size)
      return {};
    AlignedBytes data(static_cast<std::byte *>(std::aligned_alloc(kTensorAlignment, size)));
    if (data == nullptr)
      throw std::bad_alloc();
    if (used != 0)
      std::memcpy(data.get(), tensor.data.get(), used);
    tensor.data = std::move(data);
    tensor.capacity = size;
    allocated_ = others + size;
  }
  return {tensor.data.get(), tensor.capacity};
}

void HeapSink::finish(std::size_t index, DType dtype, const Shape &shape, std::uint64_t bytes) {
  if (index >= tensors_.size())
    tensors_.resize(index + 1);
  Tensor &tensor = tensors_[index];
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.bytes = bytes;
}

} // namespace headrace
