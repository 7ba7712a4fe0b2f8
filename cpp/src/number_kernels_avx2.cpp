// The kernels for AVX2. Each goes through the text by stretches of 2 KB, which stay in the cache:
// first the numbers of a stretch are found (number_scan_avx2.hpp), then converted
// (number_values_avx2.hpp); blocks of small integers are converted at once (number_bytes_avx2.hpp).
// Where something out of the ordinary is met, what came before is kept, and the portable reader
// goes on.
#include "number_kernels.hpp"

#include <algorithm>

#include "number_bytes_avx2.hpp"
#include "number_scalar.hpp"
#include "number_scan_avx2.hpp"
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

template <class Real> struct RealElement {
  static constexpr Form kForm = Form::kReal;
  using Lanes = std::conditional_t<sizeof(Real) == 4, Float32, Float64>;
  using Constants = typename Lanes::Constants;
  static constexpr bool kHoldsBytes = true;

  static const char *read(const char *p, const char *end, Real &out) noexcept {
    return scalar::read_float<Real>(p, end, out);
  }
  [[gnu::always_inline]] static unsigned convert(const Tokens &tokens, std::size_t i, Real *out,
                                                 const Constants &c) noexcept {
    const typename Lanes::Four four = to_reals<Lanes>(tokens, i, c);
    Lanes::store(out, four.values);
    return four.unsure;
  }
};

template <> struct Element<float> : RealElement<float> {};
template <> struct Element<double> : RealElement<double> {};

// One pass over text: from where a run stands until something out of the ordinary. `kRows`: see
// TokenScan.
template <class T, bool kRows> class Pass {
public:
  explicit Pass(const NumberRun &run, std::uint64_t row_length = 0) noexcept
      : scan_(row_length), p_(run.text), end_(run.end), next_(run.text),
        begin_(reinterpret_cast<T *>(run.out)), out_(begin_),
        out_end_(reinterpret_cast<T *>(run.out_end)),
        room_end_(out_ + (run.room_end - run.out) / static_cast<std::ptrdiff_t>(sizeof(T))) {}

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
    const auto &seen = scan_.state();
    const std::uint64_t whole = std::min(seen.rows, taken / length);
    if (whole == 0)
      return 0;
    if (whole == seen.rows)
      text = seen.rows_end;
    else if (whole == settled_rows_)
      text = settled_rows_end_;
    else if (whole * length == settled_) // its `]` was in a block that was not settled
      text = settled_next_;
    else
      text = tokens_.end_of(whole * length - 1 - settled_) + 1;
    return whole;
  }

private:
  // False: this is the last stretch.
  bool read_stretch() noexcept {
    settle();
    if constexpr (Element<T>::kHoldsBytes)
      take_bytes();
    if (!has_signs_)
      kind_ = kind_ == Kind::kSigned ? Kind::kPlain : kind_;
    has_signs_ = false;
    for (std::size_t room = Tokens::kBlocks; room != 0;) {
      const std::size_t limit = std::min(room, whole_blocks());
      if (limit == 0)
        return false;
      std::size_t taken = 0;
      if (kind_ == Kind::kPlain)
        taken = scan_.template take<Kind::kPlain>(p_, limit, tokens_);
      else if (kind_ == Kind::kSigned)
        taken = scan_.template take<Kind::kSigned>(p_, limit, tokens_);
      p_ += 64 * taken;
      room -= taken;
      if (taken == limit)
        continue;
      const auto look =
          scan_.look(p_, static_cast<std::uint64_t>(out_ - begin_) + tokens_.ended(), tokens_);
      p_ += 64;
      --room;
      if (!look.is_clean)
        return false;
      choose_kind(look.brackets, look.signs, taken);
    }
    return true;
  }

  // What the next block is likely to be, given what the last one was, and how many before it were
  // of the kind expected.
  void choose_kind(bool brackets, bool signs, std::size_t taken) noexcept {
    has_signs_ |= signs;
    if (!brackets)
      kind_ = signs ? Kind::kSigned : Kind::kPlain;
    else if (taken == 0 && had_brackets_)
      kind_ = Kind::kBrackets;
    had_brackets_ = brackets;
  }

  std::size_t whole_blocks() const noexcept {
    return end_ - p_ < 64 + kBehind ? 0 : static_cast<std::size_t>(end_ - p_ - kBehind) / 64;
  }

  // All that the scan has seen so far is converted.
  void settle() noexcept {
    if constexpr (kRows) {
      settled_ = static_cast<std::uint64_t>(out_ - begin_);
      settled_rows_ = scan_.state().rows;
      settled_rows_end_ = scan_.state().rows_end;
      settled_next_ = next_;
    }
  }

  // Of the number that the text before ends with.
  const char *begin_of_digits() const noexcept {
    const char *p = p_;
    while (scalar::is_digit(p[-1]))
      --p;
    return p;
  }

  // Takes blocks of numbers from 0 to 255 for as long as there are any. Precondition: no number but
  // one that has not ended is in tokens_.
  [[gnu::noinline]] void take_bytes() noexcept {
    auto state = scan_.state();
    if ((state.after_sign | state.in_exponent) != 0 ||
        (state.after_number != 0 &&
         (tokens_.is_negative(0) || tokens_.begin_of(0) != begin_of_digits())))
      return;
    const ByteClasses classes;
    const auto digit_before = [p = p_](int back) { return scalar::is_digit(p[-back]) ? 1U : 0U; };
    state.after_zero = p_[-1] == '0' && digit_before(2) == 0 ? state.after_number : 0;
    // The last digits of the block before, and which of them have a digit before them.
    std::uint64_t digits = static_cast<std::uint64_t>(digit_before(1)) << 63;
    std::uint64_t pairs = static_cast<std::uint64_t>(digit_before(1) & digit_before(2)) << 63 |
                          static_cast<std::uint64_t>(digit_before(2) & digit_before(3)) << 62;
    const char *const from = p_;
    for (; whole_blocks() != 0 && room_end_ - out_ >= 64 + 8; p_ += 64) {
      auto next = state;
      const auto block =
          scan_.read_digits(p_, classes, static_cast<std::uint64_t>(out_ - begin_), next);
      const std::uint64_t pairs_here = block.digits & (block.digits << 1 | digits >> 63);
      const std::uint64_t four = pairs_here & (pairs_here << 2 | pairs >> 62);
      const auto count = static_cast<unsigned>(std::popcount(block.ends));
      if ((block.bad | four) != 0 || out_end_ - out_ < count ||
          !convert_bytes(p_, classes, count, out_))
        break;
      digits = block.digits;
      pairs = pairs_here;
      state = next;
      out_ += count;
      if (block.ends != 0)
        next_ = p_ + 64 - std::countl_zero(block.ends);
    }
    if (p_ == from)
      return;
    if constexpr (Element<T>::kForm == Form::kReal)
      state.after_zero = 0;
    scan_.set_state(state);
    settle();
    tokens_.drop_open();
    if (state.after_number != 0)
      tokens_.open_at(begin_of_digits());
    else
      tokens_.begin_stretch(p_);
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
  T *const room_end_;
  Kind kind_ = Kind::kPlain; // of block that is expected
  bool had_brackets_ = false;
  bool has_signs_ = false;
  std::uint64_t settled_ = 0, settled_rows_ = 0;
  const char *settled_rows_end_ = nullptr;
  const char *settled_next_ = nullptr;
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
  case DType::kFloat64:
    return use<double>(kernel);
  default:
    return;
  }
}

} // namespace headrace::avx2

HEADRACE_AVX2_END

#endif
