// Code for one instruction set: what stands between HEADRACE_X_BEGIN and HEADRACE_X_END may use it,
// in a build for any processor. Every header is included before the region, so that no inline
// function of somebody else's is compiled for it and then called by everybody.
#pragma once

#if defined(__x86_64__)
#define HEADRACE_HAS_AVX2 1
#include <immintrin.h>
#else
#define HEADRACE_HAS_AVX2 0
#endif

#if defined(__clang__)
#define HEADRACE_AVX2_BEGIN                                                                        \
  _Pragma(                                                                                         \
      "clang attribute push(__attribute__((target(\"avx2,fma,bmi,bmi2,lzcnt,popcnt,pclmul\"))),"   \
      "apply_to = function)")
#define HEADRACE_AVX2_END _Pragma("clang attribute pop")
#else
#define HEADRACE_AVX2_BEGIN                                                                        \
  _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma,bmi,bmi2,lzcnt,popcnt,pclmul\")")
#define HEADRACE_AVX2_END _Pragma("GCC pop_options")
#endif
