// Finds the numbers in JSON text, 64 bytes at a time, and proves their grammar on the way.
//
// Each byte's class becomes a bit of a word, and what may stand beside what is arithmetic on those
// words: no branch depends on a single byte. What is proven of everything up to the first bit of
// `bad`: every number has digits where they belong, at most one point and no leading zero (of reals
// that is seen when they are converted), and is followed at once by `,` or `]`; after `,` and `[`,
// blanks allowed, comes a number or `[`.
#pragma once

#include "number_tokens_avx2.hpp"

#if HEADRACE_HAS_AVX2

namespace headrace::avx2 {

/// Of which numbers may be made.
enum class Form : std::uint8_t { kInteger, kReal };

/// What a block may have. The less, the less arithmetic it takes, and most blocks are plain.
enum class Kind : std::uint8_t {
  kPlain,    ///< digits, points, commas, blanks
  kSigned,   ///< also minus signs and exponents
  kBrackets, ///< also `[` and `]`
};

HEADRACE_AVX2_BEGIN

[[gnu::always_inline]] inline std::uint64_t mask64(__m256i low, __m256i high) noexcept {
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(low)) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm256_movemask_epi8(high))) << 32;
}

[[gnu::always_inline]] inline __m256i load32(const char *p) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
}

/// Keeps what a loop needs in registers or on the stack: the compiler, left alone, makes each
/// constant anew in every turn.
template <class Vector> [[gnu::always_inline]] inline Vector hold(Vector vector) noexcept {
  asm("" : "+x"(vector));
  return vector;
}

[[gnu::always_inline]] inline __m256i twice(__m128i lane) noexcept {
  return hold(_mm256_broadcastsi128_si256(lane));
}

/// Of 64 bytes, a bit for each that is of some class.
class ByteClasses {
public:
  ByteClasses() noexcept {} // not by default: that one would be compiled for any processor

  [[gnu::always_inline]] __m256i is_digit(__m256i text) const noexcept {
    const __m256i value = _mm256_sub_epi8(text, zero);
    return _mm256_cmpeq_epi8(_mm256_min_epu8(value, nine_), value);
  }
  [[gnu::always_inline]] std::uint64_t digit(__m256i low, __m256i high) const noexcept {
    return mask64(is_digit(low), is_digit(high));
  }
  [[gnu::always_inline]] std::uint64_t blank(__m256i low, __m256i high) const noexcept {
    return mask64(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(blanks_, low), low),
                  _mm256_cmpeq_epi8(_mm256_shuffle_epi8(blanks_, high), high));
  }
  [[gnu::always_inline]] static std::uint64_t equal(__m256i low, __m256i high,
                                                    __m256i byte) noexcept {
    return mask64(_mm256_cmpeq_epi8(low, byte), _mm256_cmpeq_epi8(high, byte));
  }
  [[gnu::always_inline]] static std::uint64_t equal(__m256i low, __m256i high, char c) noexcept {
    return equal(low, high, _mm256_set1_epi8(c));
  }

  const __m256i dot = hold(_mm256_set1_epi8('.'));
  const __m256i comma = hold(_mm256_set1_epi8(','));
  const __m256i zero = hold(_mm256_set1_epi8('0'));

private:
  const __m256i nine_ = hold(_mm256_set1_epi8(9));
  // For each low half of a byte the blank that has it, if any.
  const __m256i blanks_ =
      twice(_mm_setr_epi8(' ', -1, -1, -1, -1, -1, -1, -1, -1, '\t', '\n', -1, -1, '\r', -1, 0));
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

[[gnu::always_inline]] inline std::uint64_t low_bits(std::size_t count) noexcept {
  return _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(count));
}

/// An exponent's text.
struct Exponent {
  int value;
  std::size_t length; ///< with the `e`; 0: it is not one, or has more than four digits
};

/// What stands at `p`, an `e` that follows a digit. Precondition: 8 readable bytes.
inline Exponent read_exponent(const char *p) noexcept {
  const auto digit = [](char c) {
    return static_cast<unsigned>(static_cast<unsigned char>(c)) - '0';
  };
  const char *q = p + 1;
  const bool negative = *q == '-';
  q += negative || *q == '+' ? 1 : 0;
  if (digit(*q) > 9)
    return {0, 0};
  unsigned value = digit(*q++);
  for (int more = 0; more < 3 && digit(*q) <= 9; ++more)
    value = value * 10 + digit(*q++);
  if (*q != ',' && *q != ']')
    return {0, 0};
  return {negative ? -static_cast<int>(value) : static_cast<int>(value),
          static_cast<std::size_t>(q - p)};
}

/// Walks text block by block. `kRows`: through whole lists of `row_length` numbers each, from the
/// byte after the `]` of one on; else through one flat list, from an element on until its `]`.
template <Form kForm, bool kRows> class TokenScan {
public:
  explicit TokenScan(std::uint64_t row_length = 0) noexcept : row_length_(row_length) {
    state_.after_close = kRows ? 1 : 0;
  }

  /// Adds the blocks from `p` on, at most `limit`, that are of this kind and right; yields how
  /// many. Precondition: 32 bytes behind the last are readable.
  template <Kind kKind>
  [[gnu::noinline]] std::size_t take(const char *p, std::size_t limit, Tokens &tokens) noexcept {
    static_assert(kKind != Kind::kBrackets, "`look` takes these");
    if (!state_.allows(kKind))
      return 0;
    const ByteClasses classes;
    State state = state_;
    std::size_t blocks = 0;
    for (; blocks < limit; ++blocks, p += 64) {
      State next = state;
      Block block = read<kKind>(p, classes, next);
      if (block.bad != 0)
        break;
      if constexpr (kKind != Kind::kPlain)
        if (add_signs_and_exponents(p, block, tokens); block.bad != 0)
          break;
      state = next;
      tokens.add_bounds(p, block.starts | block.ends);
    }
    state_ = state;
    return blocks;
  }

  /// What `look` saw.
  struct Look {
    bool is_clean; ///< false: there is a fault, and only what comes before it was added
    bool brackets;
    bool signs; ///< or exponents
  };

  /// Adds the numbers of the block at `p`, whatever it has. `ended`: how many there were in all
  /// blocks before.
  [[gnu::noinline]] Look look(const char *p, std::uint64_t ended, Tokens &tokens) noexcept {
    const std::uint64_t in_exponent = state_.in_exponent; // of a number that `ended` counts
    const std::uint64_t in_number = in_exponent | state_.after_number | state_.after_sign;
    Block block = read<Kind::kBrackets>(p, ByteClasses(), state_);
    add_signs_and_exponents(p, block, tokens);
    if constexpr (kRows)
      if (!match_rows(block, p, ended - in_exponent, in_number, state_))
        block.bad = 1;
    tokens.add_bounds(p, (block.starts | block.ends) & below(block.bad));
    return {block.bad == 0, (block.open | block.close) != 0,
            (block.negative | block.exponents) != 0};
  }

  /// What the byte before a block is, each a bit, and more that the text before tells.
  struct State {
    std::uint64_t after_number = 0; ///< of its digits or point
    std::uint64_t after_dot = 0;
    std::uint64_t after_zero = 0;  ///< that begins a number; integers only
    std::uint64_t in_fraction = 0; ///< a run of digits behind a point goes on
    std::uint64_t in_exponent = 0;
    std::uint64_t after_sign = 0;
    std::uint64_t after_close = 0;
    std::uint64_t opened = 0;      ///< `[` and nothing but blanks since
    std::uint64_t awaits_open = 0; ///< the next number begins a row
    std::uint64_t rows = 0;
    const char *rows_end = nullptr; ///< behind the `]` of the last whole row

    bool allows(Kind kind) const noexcept {
      const std::uint64_t brackets = after_close | opened | awaits_open;
      return (brackets | (kind == Kind::kPlain ? in_exponent | after_sign : 0)) == 0;
    }
  };

  /// A block whose numbers are nothing but digits.
  struct DigitBlock {
    std::uint64_t digits;
    std::uint64_t ends; ///< bytes behind numbers
    std::uint64_t bad;
  };

  /// What the 64 bytes at `p` hold, if there is nothing but digits, commas, blanks, and between
  /// whole rows brackets, all of them where they belong; else a block with `bad`. `state` goes on
  /// to what is true behind the block. Preconditions: state.after_zero is right, for reals too;
  /// the block does not begin behind a sign or within an exponent.
  [[gnu::always_inline]] DigitBlock read_digits(const char *p, const ByteClasses &classes,
                                                std::uint64_t ended, State &state) const noexcept {
    const __m256i low = load32(p);
    const __m256i high = load32(p + 32);
    Block block;
    const std::uint64_t digit = classes.digit(low, high);
    const std::uint64_t zero = classes.equal(low, high, classes.zero);
    block.blank = classes.blank(low, high);
    std::uint64_t delimiters = classes.equal(low, high, classes.comma);
    const std::uint64_t after_digit = digit << 1 | state.after_number;
    block.starts = block.begins = digit & ~after_digit;
    block.ends = block.number_ends = after_digit & ~digit;
    const std::uint64_t first_zero = zero & block.starts;
    block.bad = (first_zero << 1 | state.after_zero) & digit;
    std::uint64_t known = digit | block.blank | delimiters;
    if (kRows && (~known != 0 || !state.allows(Kind::kPlain))) {
      add_brackets(low, high, block, delimiters, known, state);
      if (!match_rows(block, p, ended, state.after_number, state))
        block.bad = 1;
    } else {
      block.bad |= block.ends ^ delimiters;
    }
    block.bad |= ~known;
    state.after_number = digit >> 63;
    state.after_zero = first_zero >> 63;
    return {digit, block.ends, block.bad};
  }

  const State &state() const noexcept { return state_; }
  void set_state(const State &state) noexcept { state_ = state; }

private:
  // What 64 bytes hold, a bit for each byte.
  struct Block {
    std::uint64_t starts = 0;      // first digits
    std::uint64_t ends = 0;        // bytes behind the last digits before an exponent
    std::uint64_t bad = 0;         // from the lowest on nothing is known
    std::uint64_t negative = 0;    // of `starts`
    std::uint64_t exponents = 0;   // each `e`
    std::uint64_t begins = 0;      // first bytes of numbers, be it a sign
    std::uint64_t number_ends = 0; // bytes behind whole numbers
    std::uint64_t blank = 0, open = 0, close = 0;
  };

  template <Kind kKind>
  [[gnu::always_inline]] Block read(const char *p, const ByteClasses &classes,
                                    State &state) const noexcept {
    Block block;
    const __m256i low = load32(p);
    const __m256i high = load32(p + 32);
    std::uint64_t digit = classes.digit(low, high);
    const std::uint64_t dot = classes.equal(low, high, classes.dot);
    std::uint64_t delimiters = classes.equal(low, high, classes.comma);
    block.blank = classes.blank(low, high);
    std::uint64_t known = digit | dot | delimiters | block.blank;
    std::uint64_t minus = 0, after_exponent = 0;
    if constexpr (kKind != Kind::kPlain) {
      minus = classes.equal(low, high, '-');
      known |= minus;
    }
    if constexpr (kForm == Form::kReal && kKind != Kind::kPlain)
      if ((~known | state.in_exponent) != 0) {
        // Also where no bracket is expected: an exponent must not hide the one that ends it.
        const std::uint64_t close = classes.equal(low, high, ']');
        const std::uint64_t text =
            text_of_exponents(low, high, delimiters | close, block, after_exponent, state);
        known |= text;
        digit &= ~text;
        minus &= ~text;
      }
    const std::uint64_t number = digit | dot;
    const std::uint64_t after_number = number << 1 | state.after_number;
    block.starts = number & ~after_number;
    block.ends = after_number & ~number;
    block.number_ends = block.ends;
    if constexpr (kKind != Kind::kPlain) {
      const std::uint64_t signed_number = number | minus;
      block.begins = signed_number & ~(signed_number << 1 | state.after_number | state.after_sign);
      block.negative = minus << 1 | state.after_sign;
      state.after_sign = minus >> 63;
      block.bad = (block.negative & ~digit) | (block.exponents & ~block.ends);
      block.number_ends = (block.ends & ~block.exponents) | after_exponent;
    }
    if constexpr (kKind == Kind::kBrackets)
      add_brackets(low, high, block, delimiters, known, state);
    else
      block.bad |= block.number_ends ^ delimiters;
    block.bad |= ~known;
    if constexpr (kForm == Form::kInteger) {
      const std::uint64_t zeros = classes.equal(low, high, classes.zero) & block.starts;
      block.bad |= (block.starts & ~digit) | ((zeros << 1 | state.after_zero) & digit) | dot;
      state.after_zero = zeros >> 63;
    } else {
      block.bad |= bad_points(digit, dot, block.starts, state);
    }
    state.after_number = number >> 63;
    return block;
  }

  // The bytes from each `e` to the next delimiter, of which add_signs_and_exponents makes sure.
  // Added to the run of bytes that are no delimiter, an `e` carries through to the one behind it.
  [[gnu::always_inline]] static std::uint64_t
  text_of_exponents(__m256i low, __m256i high, std::uint64_t delimiters, Block &block,
                    std::uint64_t &after_exponent, State &state) noexcept {
    const __m256i lower = _mm256_set1_epi8(0x20);
    block.exponents =
        ByteClasses::equal(_mm256_or_si256(low, lower), _mm256_or_si256(high, lower), 'e');
    const std::uint64_t within = ~delimiters;
    const std::uint64_t sum = within + (block.exponents | state.in_exponent);
    state.in_exponent = sum < within ? 1 : 0;
    after_exponent = sum & delimiters;
    return within & ~sum;
  }

  // Adds what brackets there are, and holds delimiters to where they belong.
  [[gnu::always_inline]] static void add_brackets(__m256i low, __m256i high, Block &block,
                                                  std::uint64_t &delimiters, std::uint64_t &known,
                                                  State &state) noexcept {
    block.open = ByteClasses::equal(low, high, '[');
    block.close = ByteClasses::equal(low, high, ']');
    delimiters |= block.close;
    known |= block.open | block.close;
    const std::uint64_t after_close = block.close << 1 | state.after_close;
    state.after_close = block.close >> 63;
    block.bad |= (block.number_ends | after_close) ^ delimiters;
    block.bad |= kRows ? block.close & after_close : block.open | after_close;
  }

  // Adds the signs and exponents that come before a fault, or finds one.
  [[gnu::always_inline]] static void add_signs_and_exponents(const char *p, Block &block,
                                                             Tokens &tokens) noexcept {
    for (std::uint64_t e = block.exponents & below(block.bad); e != 0; e &= e - 1) {
      const Exponent exponent = read_exponent(p + lowest(e));
      if (exponent.length == 0) {
        block.bad |= e & ~(e - 1);
        break;
      }
      const auto before = static_cast<unsigned>(std::popcount(block.ends & below(e)));
      tokens.add_exponent(tokens.ended() + before, exponent.value, exponent.length);
    }
    if (block.negative != 0)
      tokens.add_signs(block.negative, block.starts);
  }

  // Numbers that do not begin with a digit; points that no digit follows, and those behind the
  // fraction of the same number. To find these, the first of a run of digits behind a point is
  // added to the run, which carries through to the byte behind it.
  [[gnu::always_inline]] static std::uint64_t
  bad_points(std::uint64_t digit, std::uint64_t dot, std::uint64_t starts, State &state) noexcept {
    const std::uint64_t after_dot = dot << 1 | state.after_dot;
    const std::uint64_t sum = digit + (after_dot | state.in_fraction);
    state.after_dot = dot >> 63;
    state.in_fraction = sum < digit ? 1 : 0;
    return ((after_dot | starts) & ~digit) | (sum & ~digit & dot);
  }

  // Holds the brackets to rows of the right length: among the numbers that end here, those with `]`
  // are every row_length_-th, and among those that begin, those after `[`. Before this block
  // `ended` numbers have ended, and `in_number` is 1 if one more has begun.
  [[gnu::always_inline]] bool match_rows(const Block &block, const char *p, std::uint64_t ended,
                                         std::uint64_t in_number, State &state) const noexcept {
    const std::uint64_t region = below(block.bad);
    const std::uint64_t begins = block.begins & region;
    const std::uint64_t ends = block.number_ends & region;
    const std::uint64_t ended_before = ended - state.rows * row_length_; // in this row
    const std::uint64_t begun_before = ended_before + in_number;
    if (begun_before > row_length_)
      return false;
    const std::uint64_t after_open = block.open << 1 | state.opened;
    const std::uint64_t sum = block.blank + after_open;
    state.opened = (sum < after_open ? 1 : 0) | block.open >> 63;
    const std::uint64_t opened = sum & ~block.blank; // what comes after `[`, behind blanks
    const auto begun_here = static_cast<unsigned>(std::popcount(begins));
    const auto ended_here = static_cast<unsigned>(std::popcount(ends));
    const std::uint64_t first =
        every_from(begun_before == 0 ? 0 : row_length_ - begun_before) & low_bits(begun_here);
    const std::uint64_t last = every_from(row_length_ - 1 - ended_before) & low_bits(ended_here);
    if ((opened & block.open & region) != 0 || _pext_u64(opened, begins) != first ||
        _pext_u64(block.close, ends) != last)
      return false;
    if (last != 0) {
      state.rows += static_cast<unsigned>(std::popcount(last));
      state.rows_end = p + 64 - std::countl_zero(block.close & ends);
    }
    const auto first_clear = static_cast<unsigned>(std::countl_zero(first));
    const std::uint64_t begun =
        first == 0 ? begun_before + begun_here : begun_here - 63 + first_clear;
    state.awaits_open = begun == 0 || begun == row_length_ ? 1 : 0;
    return true;
  }

  std::uint64_t every_from(std::uint64_t first) const noexcept {
    return first < 64 ? every(row_length_) << first : 0;
  }

  std::uint64_t row_length_;
  State state_;
};

HEADRACE_AVX2_END

} // namespace headrace::avx2

#endif
