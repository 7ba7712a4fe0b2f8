// The inner loop of decoding: a flat run of numbers, from text into a tensor's memory.
//
// A kernel takes what is common and plain, as fast as it can, and stops at anything else; the
// caller (tensor_filler.cpp) then judges that one element with the exact functions, and resumes.
// So a kernel never reports an error, and variants for other instruction sets need only agree on
// the elements that they take. number_kernel is the one place that chooses between them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/simd.hpp"
#include "headrace/tensor.hpp"

namespace headrace {

/// Where a run stands. `text` at the first byte of an element, blanks before it allowed.
struct NumberRun {
  const char *text;
  const char *begin;  ///< of readable memory
  const char *end;    ///< of readable memory: no kernel reads before `begin`, or at or behind `end`
  std::byte *out;     ///< place of the next element, aligned to its size
  std::byte *out_end; ///< a whole number of elements away; no more are taken
  /// At or behind out_end: so far may be written what is not taken.
  std::byte *room_end;
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
  /// Takes whole lists of `length` (at least 1) elements each, `text` being behind the `]` of one
  /// like them, and is behind the last one's afterwards; yields how many. Not an error: none.
  /// Absent where it would not be faster than `run` list by list.
  std::uint64_t (*rows)(NumberRun &, std::uint64_t length) noexcept = nullptr;
};

/// The kernel for elements of `dtype`; empty for kString and kUnsupported.
NumberKernel number_kernel(DType dtype, Simd level) noexcept;

namespace avx2 {
/// Replaces what is faster with AVX2, which the processor must have.
void use_kernels(DType dtype, NumberKernel &kernel) noexcept;
} // namespace avx2

} // namespace headrace
