// Takes the place of kernels/isa/compiler.h: every CPU has every feature, and to inline emulated
// instructions would only take long to compile.
#pragma once

#define VPU_INLINE inline
#define VPU_INLINE_LAMBDA

#define VPU_TARGET(feature)
#define VPU_CPU_HAS(feature) true

namespace vpu::isa {
namespace {

template <class Vector>
void hide(Vector&) {}

}  // namespace
}  // namespace vpu::isa
