// Finds the numbers in JSON text, 64 bytes at a time, and proves their grammar on the way.
//
// Each byte's class becomes a bit of a word, and what may stand beside what is arithmetic on those
// words: no branch depends on a single byte. What is proven of everything up to the first bit of
// `bad`: every number has digits where they belong, at most one point and no leading zero, and is
// followed at once by `,` or `]`; after `,` and `[`, blanks allowed, comes a number or `[`.
// Numbers with an exponent, or signs inside, are listed apart, for somebody else to judge.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "simd_region.hpp"

#if HEADRACE_HAS_AVX2

namespace headrace::avx2 {

/// Of which numbers may be made.
enum class Form : std::uint8_t { kInteger, kReal };

/// The classes of 64 bytes, a bit for each byte.
struct Classes {
  std::uint64_t digit, dot, comma, blank;
  std::uint64_t minus = 0, exponent = 0, open = 0, close = 0; // `exponent`: e, E, +

  std::uint64_t other() const noexcept {
    return ~(digit | dot | comma | blank | minus | exponent | open | close);
  }
};

HEADRACE_AVX2_BEGIN

[[gnu::always_inline]] inline std::uint64_t mask64(__m256i low, __m256i high) noexcept {
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(low)) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm256_movemask_epi8(high))) << 32;
}

[[gnu::always_inline]] inline std::uint64_t equal64(__m256i low, __m256i high, char c) noexcept {
  const __m256i byte = _mm256_set1_epi8(c);
  return mask64(_mm256_cmpeq_epi8(low, byte), _mm256_cmpeq_epi8(high, byte));
}

[[gnu::always_inline]] inline __m256i is_digit(__m256i text) noexcept {
  const __m256i value = _mm256_sub_epi8(text, _mm256_set1_epi8('0'));
  return _mm256_cmpeq_epi8(_mm256_min_epu8(value, _mm256_set1_epi8(9)), value);
}

[[gnu::always_inline]] inline __m256i load32(const char *p) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
}

[[gnu::always_inline]] inline Classes classify(const char *p) noexcept {
  const __m256i low = load32(p);
  const __m256i high = load32(p + 32);
  Classes c{mask64(is_digit(low), is_digit(high)), equal64(low, high, '.'), equal64(low, high, ','),
            equal64(low, high, ' ')};
  c.minus = equal64(low, high, '-');
  c.open = equal64(low, high, '[');
  c.close = equal64(low, high, ']');
  if (c.other() == 0)
    return c;
  const __m256i bit = _mm256_set1_epi8(0x20);
  c.exponent =
      equal64(_mm256_or_si256(low, bit), _mm256_or_si256(high, bit), 'e') | equal64(low, high, '+');
  c.blank |= equal64(low, high, '\n') | equal64(low, high, '\r') | equal64(low, high, '\t');
  return c;
}

/// The bytes that plain blocks consist of, kept in registers: the compiler, left alone, makes each
/// of them anew for each block.
class PlainBytes {
public:
  PlainBytes() noexcept : dot(hold('.')), comma(hold(',')), blank(hold(' ')) {}

  [[gnu::always_inline]] __m256i is_digit(__m256i text) const noexcept {
    const __m256i value = _mm256_sub_epi8(text, zero_);
    return _mm256_cmpeq_epi8(_mm256_min_epu8(value, nine_), value);
  }
  [[gnu::always_inline]] static std::uint64_t equal(__m256i low, __m256i high,
                                                    __m256i byte) noexcept {
    return mask64(_mm256_cmpeq_epi8(low, byte), _mm256_cmpeq_epi8(high, byte));
  }

  const __m256i dot, comma, blank;

private:
  static __m256i hold(char c) noexcept {
    __m256i byte = _mm256_set1_epi8(c);
    asm("" : "+x"(byte));
    return byte;
  }

  const __m256i zero_ = hold('0');
  const __m256i nine_ = hold(9);
};

/// Bits 0, period, 2 × period and so on.
[[gnu::always_inline]] inline std::uint64_t every(std::uint64_t period) noexcept {
  static constexpr auto kMasks = [] {
    struct {
      std::uint64_t of[64];
    } masks{};
    for (unsigned apart = 1; apart < 64; ++apart)
      for (unsigned bit = 0; bit < 64; bit += apart)
        masks.of[apart] |= std::uint64_t{1} << bit;
    return masks;
  }();
  return period < 64 ? kMasks.of[period] : 1;
}

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

[[gnu::always_inline]] inline std::uint64_t low_bits(std::size_t count) noexcept {
  return _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(count));
}

/// The numbers of 64 bytes, a bit for each byte.
struct Block {
  std::uint64_t starts;       ///< first digit
  std::uint64_t ends;         ///< the byte behind
  std::uint64_t digits;       ///< all
  std::uint64_t bad;          ///< from the lowest on nothing is known
  bool digits_only;           ///< no number has more than digits
  std::uint64_t negative = 0; ///< of `starts`
  std::uint64_t special = 0;  ///< what a plain number does not have

  bool is_clean() const noexcept { return bad == 0; }
};

/// Numbers in a stretch of text, in order. One that begins in the stretch and does not end in it is
/// carried over into the next.
class Tokens {
public:
  static constexpr std::size_t kBlocks = 32;

  /// Forgets all numbers but one that has not ended. `next`: where the following stretch begins.
  void begin_stretch(const char *next) noexcept {
    const bool open = bounds_size_ % 2 != 0;
    const bool negative = open && is_negative(ended());
    const bool special = open && special_size_ != 0 && special_[special_size_ - 1] == ended();
    base_ = open ? begin_of(ended()) : next;
    if (any_negative_)
      std::memset(negative_, 0, sizeof negative_);
    any_negative_ = negative;
    negative_[0] = negative ? 1 : 0;
    bounds_[0] = 0;
    bounds_size_ = open ? 1 : 0;
    special_[0] = 0;
    special_size_ = special ? 1 : 0;
  }

  /// A number that began at `start` has not ended yet. Precondition: there is none.
  void open_at(const char *start) noexcept {
    base_ = start;
    bounds_[0] = 0;
    bounds_size_ = 1;
  }
  bool has_open() const noexcept { return bounds_size_ % 2 != 0; }
  void drop_open() noexcept { bounds_size_ = special_size_ = 0; }

  /// Adds the numbers of the block at `p`. A stretch has at most kBlocks.
  void add(const char *p, const Block &block) noexcept {
    const std::uint64_t region = below(block.bad);
    if (block.negative != 0)
      add_signs(block);
    if (const std::uint64_t special = block.special & region; special != 0)
      add_special(block.starts, special);
    add_bounds(p, (block.starts | block.ends) & region);
  }

  /// Adds the bits of `bounds` in the block at `p`.
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

  const char *base() const noexcept { return base_; }
  /// Of number i: first byte behind a sign, and end; then of the next ones. Relative to base().
  const std::uint32_t *bounds(std::size_t i) const noexcept { return bounds_ + 2 * i; }
  std::size_t ended() const noexcept { return bounds_size_ / 2; }
  const char *begin_of(std::size_t i) const noexcept { return base_ + bounds_[2 * i]; }
  const char *end_of(std::size_t i) const noexcept { return base_ + bounds_[2 * i + 1]; }
  bool is_negative(std::size_t i) const noexcept { return signs_of(i) % 2 != 0; }
  /// Bits of number i and the next ones of its eight: whether there is a minus sign.
  unsigned signs_of(std::size_t i) const noexcept { return negative_[i / 8] >> (i % 8); }
  bool any_negative() const noexcept { return any_negative_; }
  /// Numbers that need another reader, ascending.
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
  void add_signs(const Block &block) noexcept {
    any_negative_ = true;
    const std::size_t started = (bounds_size_ + 1) / 2;
    std::uint64_t word = 0;
    std::memcpy(&word, negative_ + started / 8, 8);
    word |= _pext_u64(block.negative, block.starts) << (started % 8);
    std::memcpy(negative_ + started / 8, &word, 8);
  }

  void add_special(std::uint64_t starts, std::uint64_t special) noexcept {
    const std::size_t started = (bounds_size_ + 1) / 2;
    for (; special != 0; special &= special - 1) {
      const std::uint64_t before = starts & below(special);
      const std::size_t index = started + static_cast<unsigned>(std::popcount(before)) - 1;
      if (special_size_ == 0 || special_[special_size_ - 1] != index)
        special_[special_size_++] = static_cast<std::uint16_t>(index);
    }
  }

  static constexpr std::size_t kMost = kBlocks * 32 + 1;
  static constexpr std::size_t kSlack = 16; // written without being asked whether it is needed

  const char *base_ = nullptr;
  std::size_t bounds_size_ = 0; // odd: the last number has not ended yet
  std::size_t special_size_ = 0;
  std::uint32_t bounds_[2 * kMost + kSlack];
  std::uint8_t negative_[kMost / 8 + kSlack] = {};
  bool any_negative_ = false;
  std::uint16_t special_[kMost];
};

/// Walks text block by block. `kRows`: through whole lists of `row_length` numbers each, from the
/// byte after the `]` of one on; else through one flat list, from an element on until its `]`.
template <Form kForm, bool kRows> class TokenScan {
public:
  explicit TokenScan(std::uint64_t row_length = 0) noexcept : row_length_(row_length) {
    after_close_ = unusual_ = kRows ? 1 : 0;
  }

  /// Adds the blocks from `p` on, at most `limit`, that have nothing but digits, points, commas and
  /// spaces, all of them where they belong; yields how many. Most of the arithmetic of `look` is
  /// about signs and brackets, and most blocks have none.
  std::size_t take_plain(const char *p, std::size_t limit, Tokens &tokens) noexcept {
    if (unusual_ != 0)
      return 0;
    const PlainBytes bytes;
    State state = state_;
    std::size_t blocks = 0;
    for (; blocks < limit; ++blocks, p += 64) {
      const __m256i low = load32(p);
      const __m256i high = load32(p + 32);
      const std::uint64_t digit = mask64(bytes.is_digit(low), bytes.is_digit(high));
      const std::uint64_t dot = bytes.equal(low, high, bytes.dot);
      const std::uint64_t comma = bytes.equal(low, high, bytes.comma);
      const std::uint64_t blank = bytes.equal(low, high, bytes.blank);
      const std::uint64_t number = digit | dot;
      const std::uint64_t after_number = number << 1 | state.after_number;
      const std::uint64_t starts = number & ~after_number;
      const std::uint64_t ends = after_number & ~number;
      State next = state;
      const std::uint64_t bad = (ends ^ comma) | ~(number | comma | blank) |
                                bad_digits({digit, dot, comma, blank}, starts, p, next);
      if (bad != 0)
        break;
      next.after_number = number >> 63;
      state = next;
      tokens.add_bounds(p, starts | ends);
    }
    state_ = state;
    return blocks;
  }

  /// What the 64 bytes at `p` hold, if that is nothing but integers, commas and spaces, all of them
  /// where they belong; else a block with `bad`. To be followed by `pass` if the block was taken.
  [[gnu::always_inline]] Block peek_digits(const char *p) const noexcept {
    const __m256i low = load32(p);
    const __m256i high = load32(p + 32);
    const std::uint64_t digit = mask64(is_digit(low), is_digit(high));
    const std::uint64_t comma = equal64(low, high, ',');
    const std::uint64_t blank = equal64(low, high, ' ');
    const std::uint64_t after = digit << 1 | state_.after_number;
    const std::uint64_t starts = digit & ~after;
    const std::uint64_t ends = after & ~digit;
    State next = state_;
    const std::uint64_t bad = unusual_ | (ends ^ comma) | ~(digit | comma | blank) |
                              bad_digits({digit, 0, comma, blank}, starts, p, next);
    return {starts, ends, digit, bad, true};
  }
  [[gnu::always_inline]] void pass(const char *p, const Block &block) noexcept {
    state_ = {block.digits >> 63, 0, block.starts >> 63 & (p[63] == '0' ? 1U : 0U), 0};
  }

  /// What the 64 bytes at `p` hold. `ended`: numbers of all blocks before.
  [[gnu::noinline]] Block look(const char *p, std::uint64_t ended) noexcept {
    const Classes c = classify(p);
    const std::uint64_t number = c.digit | c.dot | c.minus | c.exponent;
    const std::uint64_t begins = number & ~(number << 1 | state_.after_number);
    const std::uint64_t sign = c.minus & begins;
    const std::uint64_t body = number ^ sign;
    const std::uint64_t after_body = body << 1 | (state_.after_number & ~after_sign_);
    const std::uint64_t starts = body & ~after_body;
    const std::uint64_t ends = after_body & ~body;
    const std::uint64_t after_sign = sign << 1 | after_sign_;
    const std::uint64_t after_close = c.close << 1 | after_close_;
    const std::uint64_t special = (c.minus ^ sign) | c.exponent;
    std::uint64_t bad = c.other() | (after_sign & ~c.digit) | bad_digits(c, starts, p, state_);
    bad |= (ends | after_close) ^ (c.comma | c.close);
    bad |= kRows ? c.close & after_close : c.open | after_close;
    if constexpr (kForm == Form::kInteger)
      bad |= special;
    if constexpr (kRows)
      if (!match_rows(c, begins, ends, bad, p, ended))
        bad = 1;
    state_.after_number = number >> 63;
    after_sign_ = sign >> 63;
    after_close_ = c.close >> 63;
    unusual_ = after_sign_ | after_close_ | opened_ | awaits_open_;
    return {starts, ends, c.digit, bad, (c.dot | c.minus | special) == 0, after_sign & starts,
            special};
  }

  /// Whether the text so far ends within a number.
  bool in_number() const noexcept { return (state_.after_number & ~after_sign_) != 0; }
  /// Behind the `]` of the last whole row; nullptr: there was none.
  const char *rows_end() const noexcept { return rows_end_; }
  std::uint64_t rows() const noexcept { return rows_; }

private:
  // What the byte before a block is, each a bit.
  struct State {
    std::uint64_t after_number = 0;
    std::uint64_t after_dot = 0;
    std::uint64_t after_zero = 0;  ///< that begins a number
    std::uint64_t in_fraction = 0; ///< a run of digits behind a point goes on
  };

  // Numbers that do not begin with a digit, or with a zero before another one (of reals that is
  // seen when they are converted); points that no digit follows, and those behind the fraction of
  // the same number. To find these, what stands at the first of a run of digits is added to it,
  // which carries through to the byte behind the run.
  [[gnu::always_inline]] std::uint64_t bad_digits(const Classes &c, std::uint64_t starts,
                                                  [[maybe_unused]] const char *p,
                                                  State &state) const noexcept {
    if constexpr (kForm == Form::kInteger) {
      const std::uint64_t zeros = equal64(load32(p), load32(p + 32), '0') & starts;
      const std::uint64_t after_zero = zeros << 1 | state.after_zero;
      state.after_zero = zeros >> 63;
      return (starts & ~c.digit) | (after_zero & c.digit) | c.dot;
    }
    const std::uint64_t after_dot = c.dot << 1 | state.after_dot;
    const std::uint64_t sum = c.digit + (after_dot | state.in_fraction);
    state.after_dot = c.dot >> 63;
    state.in_fraction = sum < c.digit ? 1 : 0;
    return ((after_dot | starts) & ~c.digit) | (sum & ~c.digit & c.dot);
  }

  // Holds the brackets to rows of the right length: among the numbers that end here, those with `]`
  // are every row_length_-th, and among those that begin, those after `[`.
  [[gnu::always_inline]] bool match_rows(const Classes &c, std::uint64_t begins, std::uint64_t ends,
                                         std::uint64_t bad, const char *p,
                                         std::uint64_t ended) noexcept {
    const std::uint64_t region = below(bad);
    begins &= region;
    ends &= region;
    const std::uint64_t ended_before = ended - rows_ * row_length_; // in this row
    const std::uint64_t begun_before = ended_before + state_.after_number;
    if (begun_before > row_length_)
      return false;
    const std::uint64_t after_open = c.open << 1 | opened_;
    const std::uint64_t sum = c.blank + after_open;
    opened_ = (sum < after_open ? 1 : 0) | c.open >> 63;
    const std::uint64_t opened = sum & ~c.blank; // what comes after `[`, behind blanks
    const auto begun_here = static_cast<unsigned>(std::popcount(begins));
    const auto ended_here = static_cast<unsigned>(std::popcount(ends));
    const std::uint64_t first =
        every_from(begun_before == 0 ? 0 : row_length_ - begun_before) & low_bits(begun_here);
    const std::uint64_t last = every_from(row_length_ - 1 - ended_before) & low_bits(ended_here);
    if ((opened & c.open & region) != 0 || _pext_u64(opened, begins) != first ||
        _pext_u64(c.close, ends) != last)
      return false;
    if (last != 0) {
      rows_ += static_cast<unsigned>(std::popcount(last));
      rows_end_ = p + 64 - std::countl_zero(c.close & ends);
    }
    const auto first_clear = static_cast<unsigned>(std::countl_zero(first));
    const std::uint64_t begun =
        first == 0 ? begun_before + begun_here : begun_here - 63 + first_clear;
    awaits_open_ = begun == 0 || begun == row_length_ ? 1 : 0;
    return true;
  }

  std::uint64_t every_from(std::uint64_t first) const noexcept {
    return first < 64 ? every(row_length_) << first : 0;
  }

  std::uint64_t row_length_;
  State state_;
  std::uint64_t after_sign_ = 0, after_close_ = 0; // likewise
  std::uint64_t opened_ = 0;                       // `[` and nothing but blanks since
  std::uint64_t awaits_open_ = 0;                  // the next number begins a row
  std::uint64_t unusual_;                          // any of those that a plain block does not have
  std::uint64_t rows_ = 0;
  const char *rows_end_ = nullptr;
};

HEADRACE_AVX2_END

} // namespace headrace::avx2

#endif
