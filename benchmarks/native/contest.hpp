// What every bench of kernels shares: the alternatives take turns in one process, and each kind of
// body yields a line of JSON, which benchmarks/kernels.py reads.
//
//   decode_kernels [ROUNDS [BODY [SIDE]]]
//
// BODY: only bodies whose name has this in it. SIDE: this alternative alone runs, ROUNDS times,
// untimed: for counting its instructions by `valgrind --tool=callgrind --instr-atstart=no`.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION static_cast<void>(0)
#define CALLGRIND_STOP_INSTRUMENTATION static_cast<void>(0)
#endif

#include "headrace/simd.hpp"

namespace contest {

struct Side {
  std::string name;
  std::function<void()> work;
};

/// A kind of body.
struct Body {
  std::string name;
  std::size_t bytes; ///< of its text
  double numbers;    ///< values in it
  bool differs;      ///< whether the alternatives yield different bytes
};

class Contest {
public:
  Contest(int argc, char **argv)
      : rounds_(argc > 1 ? std::max(1, std::atoi(argv[1])) : 9), body_(argc > 2 ? argv[2] : ""),
        side_(argc > 3 ? argv[3] : "") {}

  /// Whether bodies of this name are asked for.
  bool wants(const std::string &name) const { return name.find(body_) != std::string::npos; }

  /// Measures the alternatives; the first is the one that the others are held against.
  void run(const Body &body, const std::vector<Side> &sides) const {
    if (side_.empty())
      measure(body, sides);
    else
      repeat(sides);
  }

private:
  static double seconds(const std::function<void()> &work, int calls) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i)
      work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
  }

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  void measure(const Body &body, const std::vector<Side> &sides) const {
    // As many calls as two megabytes take: some ten times the clock's uncertainty at the least.
    const int calls = std::max(1, static_cast<int>(2e6 / static_cast<double>(body.bytes)));
    std::vector<std::vector<double>> times(sides.size());
    for (const Side &side : sides)
      side.work(); // caches and allocators
    for (int round = 0; round < rounds_; ++round)
      for (std::size_t turn = 0; turn < sides.size(); ++turn) {
        const std::size_t side = (turn + static_cast<std::size_t>(round)) % sides.size();
        times[side].push_back(seconds(sides[side].work, calls));
      }
    const double size = static_cast<double>(body.bytes);
    const double first = median(times[0]);
    std::printf("{\"body\": \"%s\", \"simd\": \"%s\", \"bytes\": %zu, \"numbers\": %.0f, "
                "\"differs\": %s, \"ns\": %.2f, \"ratio\": %.2f",
                body.name.c_str(),
                std::string(headrace::simd_name(headrace::active_simd())).c_str(), body.bytes,
                body.numbers, body.differs ? "true" : "false", first / body.numbers * 1e9,
                median(times.back()) / first);
    for (std::size_t side = 0; side < sides.size(); ++side)
      std::printf(", \"%s_gb_s\": %.2f", sides[side].name.c_str(),
                  size / median(times[side]) / 1e9);
    std::printf(", \"seconds\": {");
    for (std::size_t side = 0; side < sides.size(); ++side) {
      std::printf("%s\"%s\": [", side == 0 ? "" : ", ", sides[side].name.c_str());
      for (std::size_t round = 0; round < times[side].size(); ++round)
        std::printf("%s%.4g", round == 0 ? "" : ", ", times[side][round]);
      std::printf("]");
    }
    std::printf("}}\n");
    std::fflush(stdout);
  }

  void repeat(const std::vector<Side> &sides) const {
    for (const Side &side : sides) {
      if (side.name != side_)
        continue;
      side.work();
      CALLGRIND_START_INSTRUMENTATION;
      for (int i = 0; i < rounds_; ++i)
        side.work();
      CALLGRIND_STOP_INSTRUMENTATION;
    }
  }

  int rounds_;
  std::string body_;
  std::string side_;
};

} // namespace contest
