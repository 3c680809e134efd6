// What must become part of its caller, whatever the compiler thinks: it keeps values in registers.
#pragma once

#define VPU_INLINE inline __attribute__((always_inline))
#define VPU_INLINE_LAMBDA __attribute__((always_inline))
