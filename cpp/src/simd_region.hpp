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

#define HEADRACE_PRAGMA(...) _Pragma(#__VA_ARGS__)
#if defined(__clang__)
#define HEADRACE_BEGIN(set)                                                                        \
  HEADRACE_PRAGMA(clang attribute push(__attribute__((target(set))), apply_to = function))
#define HEADRACE_AVX2_END HEADRACE_PRAGMA(clang attribute pop)
#else
#define HEADRACE_BEGIN(set) HEADRACE_PRAGMA(GCC push_options) HEADRACE_PRAGMA(GCC target(set))
#define HEADRACE_AVX2_END HEADRACE_PRAGMA(GCC pop_options)
#endif
#define HEADRACE_AVX2_BEGIN HEADRACE_BEGIN("avx2,fma,bmi,bmi2,lzcnt,pclmul")
