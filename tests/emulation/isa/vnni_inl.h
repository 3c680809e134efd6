// Takes the place of kernels/isa/vnni_inl.h.
#pragma once

#include <immintrin.h>

#include "isa/compiler.h"

namespace vpu::isa {
namespace {

// vpdpbusd. The sum of a group of four does not saturate, the sum in acc wraps.
inline void multiply_add(__m512i& acc, const __m512i& x, const __m512i& w) {
  emulation::Lanes<uint32_t, 64> sums(acc);
  const emulation::Lanes<uint8_t, 64> a(x);
  const emulation::Lanes<int8_t, 64> b(w);
  for (int i = 0; i < 64; ++i) sums[i / 4] += static_cast<uint32_t>(a[i] * b[i]);
  acc = sums;
}

}  // namespace
}  // namespace vpu::isa
