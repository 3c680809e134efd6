// Takes the place of kernels/isa/inline.h: inlining an emulated instruction takes long to compile.
#pragma once

#define VPU_INLINE inline
#define VPU_INLINE_LAMBDA
