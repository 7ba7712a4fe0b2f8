// The inner loop of decoding: a flat run of numbers, from text into a tensor's memory.
//
// A kernel takes what is common and plain, as fast as it can, and stops at anything else; the
// caller (tensor_filler.cpp) then judges that one element with the exact functions, and resumes.
// So a kernel never reports an error, and variants for other instruction sets need only agree on
// the elements that they take. number_kernel is the one place that chooses between them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/tensor.hpp"

namespace headrace {

/// Where a run stands. `text` at the first byte of an element, blanks before it allowed.
struct NumberRun {
  const char *text;
  const char *end;    ///< of readable memory: no kernel reads at or behind it
  std::byte *out;     ///< place of the next element, aligned to its size
  std::byte *out_end; ///< a whole number of elements away
};

enum class RunStop : std::uint8_t {
  kClosed,    ///< after an element, `text` at the byte after `]`
  kElement,   ///< `text` at an element that the kernel does not take, or at what should be one
  kDelimiter, ///< after an element, `text` at a byte that is neither `,` nor `]`
  kFull,      ///< `text` at a further element for which there is no room
};

struct NumberKernel {
  /// Takes elements of a list until it must stop.
  RunStop (*run)(NumberRun &) noexcept = nullptr;
  /// Takes the one element at `text` into `out`; yields the text after it, or nullptr for one that
  /// the kernel does not take. Precondition: text != end.
  const char *(*one)(const char *text, const char *end, std::byte *out) noexcept = nullptr;
};

/// The kernel for elements of `dtype`; empty for kString and kUnsupported.
NumberKernel number_kernel(DType dtype) noexcept;

} // namespace headrace
