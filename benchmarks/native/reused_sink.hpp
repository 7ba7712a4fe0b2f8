// Where the benches of the decoder put tensors.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "headrace/tensor.hpp"

namespace contest {

/// Keeps one tensor's memory from call to call, as a ring does.
class ReusedSink final : public headrace::TensorSink {
public:
  std::span<std::byte> grow(std::size_t, std::size_t used, std::size_t need) override {
    if (need > memory_.size()) {
      std::vector<std::byte> larger(need);
      if (used != 0)
        std::memcpy(larger.data(), memory_.data(), used);
      memory_ = std::move(larger);
    }
    return memory_;
  }
  void finish(std::size_t, headrace::DType, const headrace::Shape &, std::uint64_t bytes) override {
    bytes_ = bytes;
  }
  std::span<const std::byte> bytes() const { return {memory_.data(), bytes_}; }

private:
  std::vector<std::byte> memory_;
  std::uint64_t bytes_ = 0;
};

} // namespace contest
