// Instructions beyond AVX-512's base. tests/emulation has the same functions in portable C++.
#pragma once

#include <immintrin.h>

#include "isa/inline.h"

// For functions that run only where has_byte_permutes().
#define VPU_BYTE_PERMUTES __attribute__((target("avx512vbmi")))

namespace vpu::isa {
namespace {

inline bool has_byte_permutes() { return __builtin_cpu_supports("avx512vbmi"); }

// acc += dot products of four unsigned by four signed bytes. As an intrinsic it makes GCC 12 spill
// the accumulators of a loop that uses all registers (-O2 and -O3, half the speed).
VPU_INLINE void multiply_add(__m512i& acc, __m512i x, __m512i w) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(w));
}

}  // namespace
}  // namespace vpu::isa
