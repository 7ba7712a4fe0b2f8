// The kernels for AVX2. Each goes through the text by stretches of 2 KB, which stay in the cache:
// first the numbers of a stretch are found (number_tokens_avx2.hpp), then converted
// (number_values_avx2.hpp); blocks of small integers are converted at once (number_bytes_avx2.hpp).
// Where something out of the ordinary is met, what came before is kept, and the portable reader
// goes on.
#include "number_kernels.hpp"

#include <algorithm>

#include "number_bytes_avx2.hpp"
#include "number_scalar.hpp"
#include "number_tokens_avx2.hpp"
#include "number_values_avx2.hpp"

#if HEADRACE_HAS_AVX2

HEADRACE_AVX2_BEGIN

namespace headrace::avx2 {

namespace {

constexpr std::ptrdiff_t kBehind = 32; // read behind a block: text of a number that begins in it
constexpr std::ptrdiff_t kBefore = 16; // read before a block: text of a number that ends in it
constexpr std::uint64_t kAside = 8; // elements that the portable reader takes before we try again

// How numbers become elements of one type.
template <class T> struct Element {
  static constexpr Form kForm = Form::kInteger;
  using Constants = DigitConstants;
  static constexpr bool kHoldsBytes = std::numeric_limits<T>::max() >= 255;

  static const char *read(const char *p, const char *end, T &out) noexcept {
    return scalar::read_integer<T>(p, end, out);
  }
  [[gnu::always_inline]] static unsigned convert(const Tokens &tokens, std::size_t i, T *out,
                                                 const Constants &c) noexcept {
    const Integers four = to_integers<T>(tokens, i, c);
    if constexpr (sizeof(T) == 8) {
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(out), four.values);
    } else if constexpr (sizeof(T) == 4) {
      _mm_storeu_si128(reinterpret_cast<__m128i *>(out), low_halves(four.values));
    } else {
      std::uint32_t low[4];
      _mm_storeu_si128(reinterpret_cast<__m128i *>(low), low_halves(four.values));
      for (int k = 0; k < 4; ++k)
        out[k] = static_cast<T>(low[k]);
    }
    return four.unsure;
  }
};

template <> struct Element<float> {
  static constexpr Form kForm = Form::kReal;
  using Constants = FloatConstants;
  static constexpr bool kHoldsBytes = true;

  static const char *read(const char *p, const char *end, float &out) noexcept {
    return scalar::read_float<float>(p, end, out);
  }
  [[gnu::always_inline]] static unsigned convert(const Tokens &tokens, std::size_t i, float *out,
                                                 const Constants &c) noexcept {
    const Float32s four = to_float32(tokens, i, c);
    _mm_storeu_ps(out, four.values);
    return four.unsure;
  }
};

// Whole vectors of T made of 8 bytes.
inline void widen(const std::uint8_t *bytes, float *out) noexcept {
  const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(bytes));
  _mm256_storeu_ps(out, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight)));
}

template <class Int> void widen(const std::uint8_t *bytes, Int *out) noexcept {
  const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(bytes));
  auto *const to = reinterpret_cast<__m256i *>(out);
  if constexpr (sizeof(Int) == 8) {
    _mm256_storeu_si256(to, _mm256_cvtepu8_epi64(eight));
    _mm256_storeu_si256(to + 1, _mm256_cvtepu8_epi64(_mm_srli_si128(eight, 4)));
  } else if constexpr (sizeof(Int) == 4) {
    _mm256_storeu_si256(to, _mm256_cvtepu8_epi32(eight));
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out), _mm_cvtepu8_epi16(eight));
  }
}

// One pass over text: from where a run stands until something out of the ordinary. `kRows`: see
// TokenScan.
template <class T, bool kRows> class Pass {
public:
  explicit Pass(const NumberRun &run, std::uint64_t row_length = 0) noexcept
      : scan_(row_length), p_(run.text), end_(run.end), next_(run.text),
        begin_(reinterpret_cast<T *>(run.out)), out_(begin_),
        out_end_(reinterpret_cast<T *>(run.out_end)) {}

  static bool is_worthwhile(const NumberRun &run) noexcept {
    return run.end - run.text >= 64 + kBehind && run.text - run.begin >= kBefore;
  }

  void run() noexcept {
    do
      tokens_.begin_stretch(p_);
    while (read_stretch() & convert_stretch()); // both, always
  }

  /// Behind the delimiter of the last element taken.
  const char *next() const noexcept { return next_; }
  T *out() const noexcept { return out_; }

  /// How many whole rows of `length` were taken; `text`: behind the last one's `]`.
  std::uint64_t rows(std::uint64_t length, const char *&text) const noexcept {
    const auto taken = static_cast<std::uint64_t>(out_ - begin_);
    const std::uint64_t whole = std::min(scan_.rows(), taken / length);
    if (whole == scan_.rows())
      text = whole == 0 ? text : scan_.rows_end();
    else if (whole == settled_rows_)
      text = whole == 0 ? text : settled_rows_end_;
    else
      text = tokens_.end_of(whole * length - 1 - settled_) + 1;
    return whole;
  }

private:
  // False: this is the last stretch.
  bool read_stretch() noexcept {
    settle();
    if constexpr (Element<T>::kHoldsBytes)
      take_plain_bytes();
    for (std::size_t room = Tokens::kBlocks; room != 0;) {
      const std::size_t text = whole_blocks();
      if (text == 0)
        return false;
      reopen();
      const std::size_t plain = scan_.take_plain(p_, std::min(room, text), tokens_);
      p_ += 64 * plain;
      room -= plain;
      if (room == 0 || plain == text)
        continue;
      const bool in_number = scan_.in_number();
      const Block block =
          scan_.look(p_, static_cast<std::uint64_t>(out_ - begin_) + tokens_.ended());
      if (block.digits_only && tokens_.ended() == 0 && take_bytes(block, in_number)) {
        p_ += 64;
        settle();
        take_plain_bytes();
        continue;
      }
      tokens_.add(p_, block);
      p_ += 64;
      --room;
      if (!block.is_clean())
        return false;
    }
    return true;
  }

  std::size_t whole_blocks() const noexcept {
    return end_ - p_ < 64 + kBehind ? 0 : static_cast<std::size_t>(end_ - p_ - kBehind) / 64;
  }

  void take_plain_bytes() noexcept {
    for (; whole_blocks() != 0; p_ += 64) {
      const Block block = scan_.peek_digits(p_);
      if (!block.is_clean() || !take_bytes(block, scan_.in_number()))
        break;
      scan_.pass(p_, block);
    }
    settle();
  }

  // The number that blocks of bytes end within begins the next stretch.
  void reopen() noexcept {
    if (scan_.in_number() && !tokens_.has_open() && tokens_.ended() == 0)
      tokens_.open_at(begin_of_digits());
  }

  // All that the scan has seen so far is converted.
  void settle() noexcept {
    if constexpr (kRows) {
      settled_ = static_cast<std::uint64_t>(out_ - begin_);
      settled_rows_ = scan_.rows();
      settled_rows_end_ = scan_.rows_end();
    }
  }

  // Of the number that the block before ends with.
  const char *begin_of_digits() const noexcept {
    const char *p = p_;
    while (scalar::is_digit(p[-1]))
      --p;
    return p;
  }

  // Whether all numbers of a block have at most three digits, the first of which is not a zero too
  // many. That a number of the block before ends in this one makes no difference.
  bool is_of_bytes(const Block &block) const noexcept {
    const auto before = [this](int back) {
      return static_cast<std::uint64_t>(scalar::is_digit(p_[-back])) << (64 - back);
    };
    const std::uint64_t d = block.digits;
    const std::uint64_t d_before = before(1) | before(2) | before(3);
    const std::uint64_t four =
        d & (d << 1 | d_before >> 63) & (d << 2 | d_before >> 62) & (d << 3 | d_before >> 61);
    std::uint64_t zeros = 0;
    if constexpr (Element<T>::kForm == Form::kReal) {
      zeros = equal64(load32(p_), load32(p_ + 32), '0') & block.starts;
      zeros = zeros << 1 | (p_[-1] == '0' && !scalar::is_digit(p_[-2]) ? 1 : 0);
    }
    return (four | (zeros & d)) == 0;
  }

  // Converts the numbers that end in a block at once. False, and nothing was done: they are not
  // such, or do not fit.
  bool take_bytes(const Block &block, bool in_number) noexcept {
    if constexpr (!Element<T>::kHoldsBytes)
      return false;
    if (!block.is_clean() || out_end_ - out_ < 64 || !is_of_bytes(block))
      return false;
    if (in_number && tokens_.has_open() &&
        (tokens_.is_negative(0) || tokens_.begin_of(0) != begin_of_digits()))
      return false;
    const ByteValues low = byte_values(p_);
    const ByteValues high = byte_values(p_ + 32);
    const __m256i too_large = _mm256_or_si256(low.too_large, high.too_large);
    if (_mm256_testz_si256(too_large, too_large) == 0)
      return false;
    const auto count = static_cast<unsigned>(std::popcount(block.ends));
    if constexpr (sizeof(T) == 1) {
      keep_ends(high, keep_ends(low, reinterpret_cast<std::uint8_t *>(out_)));
    } else {
      std::uint8_t bytes[64 + 8];
      keep_ends(high, keep_ends(low, bytes));
      for (unsigned i = 0; i < count; i += 8)
        widen(bytes + i, out_ + i);
    }
    tokens_.drop_open();
    out_ += count;
    if (block.ends != 0)
      next_ = p_ + 64 - std::countl_zero(block.ends);
    return true;
  }

  // Yields whether all that was found was taken.
  bool convert_stretch() noexcept {
    const std::size_t found = tokens_.ended();
    std::size_t count = std::min(found, static_cast<std::size_t>(out_end_ - out_));
    count = convert_plain(count);
    for (const std::uint16_t i : tokens_.special()) {
      if (i >= count)
        break;
      if (!reread(i))
        count = i;
    }
    if (count != 0)
      next_ = tokens_.end_of(count - 1) + 1;
    out_ += count;
    return count == found;
  }

  // Converts the first `count` numbers; yields how many were, which is fewer if one is refused.
  std::size_t convert_plain(std::size_t count) noexcept {
    const typename Element<T>::Constants constants;
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4)
      if (const unsigned unsure = Element<T>::convert(tokens_, i, out_ + i, constants); unsure != 0)
          [[unlikely]]
        if (const std::size_t k = reread_all(i, unsure, count); k != count)
          return k;
    if (i == count)
      return count;
    T four[4];
    Tokens::Padding padding(tokens_, count); // the last group may be wider than what is there
    unsigned unsure = Element<T>::convert(tokens_, i, four, constants);
    std::memcpy(out_ + i, four, (count - i) * sizeof(T));
    unsure &= (1U << (count - i)) - 1;
    return reread_all(i, unsure, count);
  }

  // Reads those of the numbers from `first` on that have a bit again; yields the first that is
  // refused, or `count`.
  std::size_t reread_all(std::size_t first, unsigned bits, std::size_t count) noexcept {
    for (; bits != 0; bits &= bits - 1) {
      const std::size_t i = first + static_cast<unsigned>(std::countr_zero(bits));
      if (!is_special(i) && !reread(i))
        return i;
    }
    return count;
  }

  bool is_special(std::size_t i) const noexcept {
    const auto special = tokens_.special();
    return !special.empty() && std::binary_search(special.begin(), special.end(), i);
  }

  bool reread(std::size_t i) noexcept {
    const char *const text = tokens_.begin_of(i) - (tokens_.is_negative(i) ? 1 : 0);
    return Element<T>::read(text, end_, out_[i]) == tokens_.end_of(i);
  }

  TokenScan<Element<T>::kForm, kRows> scan_;
  const char *p_;
  const char *const end_;
  const char *next_;
  T *const begin_;
  T *out_;
  T *const out_end_;
  std::uint64_t settled_ = 0, settled_rows_ = 0;
  const char *settled_rows_end_ = nullptr;
  Tokens tokens_;
};

template <class T> RunStop take_list(NumberRun &run) noexcept {
  for (;;) {
    NumberRun aside = run;
    if (Pass<T, false>::is_worthwhile(run)) {
      Pass<T, false> pass(run);
      pass.run();
      run.out = aside.out = reinterpret_cast<std::byte *>(pass.out());
      const bool closed = pass.next() != run.text && pass.next()[-1] == ']';
      run.text = aside.text = pass.next();
      if (closed)
        return RunStop::kClosed;
      const auto room = static_cast<std::uint64_t>(run.out_end - run.out);
      aside.out_end = run.out + std::min<std::uint64_t>(room, kAside * sizeof(T));
    }
    const RunStop stop = scalar::read_run<T, &Element<T>::read>(aside);
    run.text = aside.text;
    run.out = aside.out;
    if (stop != RunStop::kFull || run.out == run.out_end)
      return stop;
  }
}

template <class T> std::uint64_t take_rows(NumberRun &run, std::uint64_t length) noexcept {
  if (!Pass<T, true>::is_worthwhile(run))
    return 0;
  Pass<T, true> pass(run, length);
  pass.run();
  const std::uint64_t rows = pass.rows(length, run.text);
  run.out += rows * length * sizeof(T);
  return rows;
}

template <class T> void use(NumberKernel &kernel) noexcept {
  kernel.run = &take_list<T>;
  kernel.rows = &take_rows<T>;
}

} // namespace

void use_kernels(DType dtype, NumberKernel &kernel) noexcept {
  switch (dtype) {
  case DType::kInt8:
    return use<std::int8_t>(kernel);
  case DType::kInt16:
    return use<std::int16_t>(kernel);
  case DType::kInt32:
    return use<std::int32_t>(kernel);
  case DType::kInt64:
    return use<std::int64_t>(kernel);
  case DType::kUint8:
    return use<std::uint8_t>(kernel);
  case DType::kUint16:
    return use<std::uint16_t>(kernel);
  case DType::kUint32:
    return use<std::uint32_t>(kernel);
  case DType::kUint64:
    return use<std::uint64_t>(kernel);
  case DType::kFloat32:
    return use<float>(kernel);
  default:
    return;
  }
}

} // namespace headrace::avx2

HEADRACE_AVX2_END

#endif
