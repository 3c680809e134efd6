// What a set's file tells the compiler beyond C++. tests/emulation has another header of this name.
#pragma once

// Becomes part of its caller, whatever the compiler thinks: that keeps values in registers.
#define VPU_INLINE inline __attribute__((always_inline))
#define VPU_INLINE_LAMBDA __attribute__((always_inline))

// A function that needs more of the CPU than its file is compiled for, and whether there is more.
#define VPU_TARGET(feature) __attribute__((target(feature)))
#define VPU_CPU_HAS(feature) (__builtin_cpu_supports(feature) != 0)

namespace vpu::isa {
namespace {

// From here on the compiler knows nothing of what is in a vector register, but that it is needed.
template <class Vector>
VPU_INLINE void hide(Vector& x) {
  asm volatile("" : "+v"(x));
}

}  // namespace
}  // namespace vpu::isa
