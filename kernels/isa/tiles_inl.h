// The instructions of AMX. The compilers' intrinsics do not tell GCC 12 all that they read and
// write. tests/emulation has the same functions in portable C++.
#pragma once

#include <cstddef>

#include "isa/compiler.h"

namespace vpu::isa {
namespace {

// `shapes` are the 64 bytes that ldtilecfg reads.
template <class Shapes>
VPU_INLINE void configure(const Shapes& shapes) {
  static_assert(sizeof(shapes) == 64);
  asm volatile("ldtilecfg %0" ::"m"(shapes));
}

VPU_INLINE void release() { asm volatile("tilerelease"); }

template <int tile>
VPU_INLINE void load(const void* from, ptrdiff_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile) : "memory");
}

template <int tile>
VPU_INLINE void store(void* to, ptrdiff_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
}

template <int c, int a, int b>
VPU_INLINE void multiply_add() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
}

}  // namespace
}  // namespace vpu::isa
