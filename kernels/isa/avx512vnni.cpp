// AVX-512 with VNNI. vpdpbusd multiplies unsigned by signed bytes, so A is packed as x + 128 and
// the caller's bias carries -128 * sum(w).
#include "isa/avx512_inl.h"

namespace vpu::isa {
namespace {

constexpr int kRows = 14;  // 28 accumulators + 2 of B + 1 of A = 31 registers

// ---- Matrix product: kRows x kColumns, named accumulators in a leaf of its own. Arrays or a
// bigger function make GCC keep accumulators in memory.

#define VPU_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#define VPU_ROW_PAIRS(X) X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(8, 9) X(10, 11) X(12, 13)

template <int rows>
__attribute__((noinline)) void gemm_rows(const Gemm& g) {
  const __m512i bias0 = _mm512_loadu_si512(g.bias);
  const __m512i bias1 = _mm512_loadu_si512(g.bias + 16);
#define VPU_BIAS(i) __m512i a##i = bias0, b##i = bias1;
  VPU_ROWS(VPU_BIAS)
#undef VPU_BIAS
  if (g.row_bias) {
#define VPU_ROW_BIAS(i)                                        \
  if constexpr (i < rows) {                                    \
    const __m512i row_bias = _mm512_set1_epi32(g.row_bias[i]); \
    a##i = _mm512_add_epi32(a##i, row_bias);                   \
    b##i = _mm512_add_epi32(b##i, row_bias);                   \
  }
    VPU_ROWS(VPU_ROW_BIAS)
#undef VPU_ROW_BIAS
  }
  const int8_t* w = g.b;
  const ptrdiff_t stride = g.a_stride;
  const ptrdiff_t stride3 = 3 * stride;
  const int32_t* end = g.runs + g.run_count;
  for (const int32_t* run = g.runs; run < end; ++run) {
    const std::byte* x0 = g.a + *run;
    const std::byte* x5 = x0 + 5 * stride;
    const std::byte* x10 = x5 + 5 * stride;
    for (int64_t k = g.k; k > 0; k -= 4, x0 += 4, x5 += 4, x10 += 4, w += 4 * kColumns) {
      // Addresses an instruction has a form for: an offset per row takes more registers than there
      // are.
      const auto row = [&](int i) VPU_INLINE_LAMBDA {
        const std::byte* x = i < 5 ? x0 : i < 10 ? x5 : x10;
        return i % 5 == 3 ? x + stride3 : x + i % 5 * stride;
      };
      const __m512i w0 = _mm512_loadu_si512(w);
      const __m512i w1 = _mm512_loadu_si512(w + 64);
#define VPU_STEP(i)                          \
  if constexpr (i < rows) {                  \
    int32_t x4;                              \
    memcpy(&x4, row(i), sizeof(x4));         \
    const __m512i v = _mm512_set1_epi32(x4); \
    multiply_add(a##i, v, w0);               \
    multiply_add(b##i, v, w1);               \
  }
      VPU_ROWS(VPU_STEP)
#undef VPU_STEP
    }
  }
  const Epilogue<true, true, true> epilogue(g);
#define VPU_STORE(i, j) \
  if constexpr (i < rows) epilogue.two_rows<(j < rows)>(i, a##i, b##i, a##j, b##j);
  VPU_ROW_PAIRS(VPU_STORE)
#undef VPU_STORE
}

void gemm_tile(const Gemm& g) {
  switch (g.rows) {
#define VPU_CASE(i) \
  case i + 1:       \
    return gemm_rows<i + 1>(g);
    VPU_ROWS(VPU_CASE)
#undef VPU_CASE
  }
}

void gemm(const Gemm& g) { for_each_tile<kRows, kColumns>(g, gemm_tile); }

int64_t peak(int64_t iterations) {
  const __m512i x = _mm512_setzero_si512();
#define VPU_ZERO(i) __m512i a##i = x, b##i = x;
  VPU_ROWS(VPU_ZERO)
#undef VPU_ZERO
  for (int64_t i = 0; i < iterations; ++i) {
#define VPU_STEP(i)         \
  multiply_add(a##i, x, x); \
  multiply_add(b##i, x, x);
    VPU_ROWS(VPU_STEP)
#undef VPU_STEP
  }
#define VPU_USE(i) hide(a##i), hide(b##i);
  VPU_ROWS(VPU_USE)
#undef VPU_USE
  return iterations * kRows * kColumns * 4;
}

constexpr Isa make() {
  Isa isa = avx512_isa("avx512vnni");
  isa.peak = peak;
  isa.gemm_tile = {kRows, kColumns, 4, 4, 1, 128};
  isa.pack_a = pack_a<-128>;
  isa.pack_b = pack_b_plain<kColumns, 4, 4>;
  isa.gemm = gemm;
  return isa;
}

}  // namespace

extern const Isa avx512vnni_isa;
const Isa avx512vnni_isa = make();

}  // namespace vpu::isa
