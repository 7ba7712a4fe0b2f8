// The numbers found in a stretch of text: where each begins and ends, its sign and its exponent.
// number_scan_avx2.hpp finds them, number_values_avx2.hpp makes values of them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "simd_region.hpp"

#if HEADRACE_HAS_AVX2

namespace headrace::avx2 {

HEADRACE_AVX2_BEGIN

/// Place of the lowest bit that is set; 64, if none is.
[[gnu::always_inline]] inline std::uint32_t lowest(std::uint64_t mask) noexcept {
  std::uint64_t place;
  // By hand: GCC clears the register before, for the sake of processors of long ago.
  asm("tzcnt %1, %0" : "=r"(place) : "r"(mask) : "cc");
  return static_cast<std::uint32_t>(place);
}

/// The bits below the lowest that is set; all, if none is.
[[gnu::always_inline]] inline std::uint64_t below(std::uint64_t mask) noexcept {
  return ~mask & (mask - 1);
}

/// Numbers in a stretch of text, in order. One that begins in the stretch and does not end in it is
/// carried over into the next.
class Tokens {
public:
  static constexpr std::size_t kBlocks = 32;

  /// Forgets all numbers but one that has not ended. `next`: where the following stretch begins.
  void begin_stretch(const char *next) noexcept {
    const bool open = has_open();
    const bool negative = open && is_negative(ended());
    if (any_negative_)
      std::memset(negative_, 0, sizeof negative_);
    base_ = open ? begin_of(ended()) : next;
    any_negative_ = negative;
    negative_[0] = negative ? 1 : 0;
    any_exponent_ = false;
    bounds_[0] = 0;
    bounds_size_ = open ? 1 : 0;
    special_size_ = 0;
  }

  /// A number that began at `start` has not ended yet. Precondition: there is none.
  void open_at(const char *start) noexcept {
    base_ = start;
    bounds_[0] = 0;
    bounds_size_ = 1;
  }
  bool has_open() const noexcept { return bounds_size_ % 2 != 0; }
  void drop_open() noexcept { bounds_size_ = 0; }

  /// Adds the numbers of the block at `p`, of which a stretch has at most kBlocks: a bit of
  /// `bounds` for the first digit of each, and for the byte behind its last one.
  [[gnu::always_inline]] void add_bounds(const char *p, std::uint64_t bounds) noexcept {
    const auto offset = static_cast<std::uint32_t>(p - base_);
    std::uint32_t *out = bounds_ + bounds_size_;
    bounds_size_ += static_cast<unsigned>(std::popcount(bounds));
    do {
      for (int i = 0; i < 8; ++i) {
        out[i] = offset + lowest(bounds);
        bounds = _blsr_u64(bounds);
      }
      out += 8;
    } while (bounds != 0);
  }

  /// Of the numbers that `starts` begins, those in `negative` have a minus sign. To be called
  /// before their bounds are added.
  [[gnu::always_inline]] void add_signs(std::uint64_t negative, std::uint64_t starts) noexcept {
    any_negative_ = true;
    const std::size_t started = (bounds_size_ + 1) / 2;
    std::uint64_t word = 0;
    std::memcpy(&word, negative_ + started / 8, 8);
    word |= _pext_u64(negative, starts) << (started % 8);
    std::memcpy(negative_ + started / 8, &word, 8);
  }

  /// Number i ends with an exponent, whose text has `length` bytes.
  void add_exponent(std::size_t i, int exponent, std::size_t length) noexcept {
    if (!any_exponent_) {
      std::memset(exponents_, 0, sizeof exponents_);
      std::memset(tails_, 0, sizeof tails_);
      any_exponent_ = true;
    }
    tails_[i] = static_cast<std::uint8_t>(length);
    if (exponent >= -kMostExponent && exponent <= kMostExponent)
      exponents_[i] = static_cast<std::int16_t>(exponent);
    else
      special_[special_size_++] = static_cast<std::uint16_t>(i);
  }
  static constexpr int kMostExponent = 60;

  const char *base() const noexcept { return base_; }
  /// Of number i: first digit, and end of the digits; then of the next ones. Relative to base().
  const std::uint32_t *bounds(std::size_t i) const noexcept { return bounds_ + 2 * i; }
  std::size_t ended() const noexcept { return bounds_size_ / 2; }
  const char *begin_of(std::size_t i) const noexcept { return base_ + bounds_[2 * i]; }
  /// Behind the whole number.
  const char *end_of(std::size_t i) const noexcept {
    return base_ + bounds_[2 * i + 1] + (any_exponent_ ? tails_[i] : 0);
  }
  bool is_negative(std::size_t i) const noexcept { return signs_of(i) % 2 != 0; }
  /// Bits of number i and the next ones of its eight: whether there is a minus sign.
  unsigned signs_of(std::size_t i) const noexcept { return negative_[i / 8] >> (i % 8); }
  bool any_negative() const noexcept { return any_negative_; }
  /// Exponents of number i and the next ones, 0 of those in special(), and whether one of the four
  /// is not 0.
  const std::int16_t *exponents(std::size_t i) const noexcept { return exponents_ + i; }
  [[gnu::always_inline]] bool has_exponent(std::size_t i) const noexcept {
    if (!any_exponent_)
      return false;
    std::uint64_t four = 0;
    std::memcpy(&four, exponents_ + i, sizeof four);
    return four != 0;
  }
  /// Numbers whose exponent is not among exponents(), ascending.
  std::span<const std::uint16_t> special() const noexcept { return {special_, special_size_}; }

  /// While it lives, the three numbers after the first `count` can be read like them.
  class Padding {
  public:
    Padding(Tokens &tokens, std::size_t count) noexcept : at_(tokens.bounds_ + 2 * count) {
      std::memcpy(kept_, at_, sizeof kept_);
      for (std::size_t i = 0; i < 6; ++i)
        at_[i] = tokens.bounds_[i % 2];
    }
    Padding(const Padding &) = delete;
    Padding &operator=(const Padding &) = delete;
    ~Padding() { std::memcpy(at_, kept_, sizeof kept_); }

  private:
    std::uint32_t *at_;
    std::uint32_t kept_[6];
  };

private:
  static constexpr std::size_t kMost = kBlocks * 32 + 1;
  static constexpr std::size_t kSlack = 16; // touched without being asked whether it is needed

  const char *base_ = nullptr;
  std::size_t bounds_size_ = 0; // odd: the last number has not ended yet
  std::size_t special_size_ = 0;
  bool any_negative_ = false;
  bool any_exponent_ = false;
  std::uint32_t bounds_[2 * kMost + kSlack];
  std::uint8_t negative_[kMost / 8 + kSlack] = {};
  std::int16_t exponents_[kMost + kSlack]; // these two only if any_exponent_
  std::uint8_t tails_[kMost + kSlack];
  std::uint16_t special_[kMost];
};

HEADRACE_AVX2_END

} // namespace headrace::avx2

#endif
