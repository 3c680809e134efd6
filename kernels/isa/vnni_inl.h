// The instruction of VNNI. tests/emulation has the same function in portable C++.
#pragma once

#include <immintrin.h>

#include "isa/compiler.h"

namespace vpu::isa {
namespace {

// acc += dot products of four unsigned by four signed bytes. As an intrinsic it makes GCC 12 spill
// the accumulators of a loop that uses all registers (-O2 and -O3, half the speed).
VPU_INLINE void multiply_add(__m512i& acc, __m512i x, __m512i w) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(w));
}

}  // namespace
}  // namespace vpu::isa
