// NEON with the matrix products of Armv8.6.
#include "isa/neon_inl.h"

namespace vpu::isa {
namespace {

// smmla multiplies eight bytes of two rows by eight of two columns. Of an odd number of rows, the
// last pair has one too many.
template <int pairs>
__attribute__((noinline)) void gemm_pairs(const Gemm& g) {
  int32x4_t products[pairs][kColumns / 2];  // of one row and two columns, then of the other row
  for (int i = 0; i < pairs; ++i) {
    for (int j = 0; j < kColumns / 2; ++j) products[i][j] = vdupq_n_s32(0);
  }
  const ptrdiff_t stride = g.a_stride;
  for_each_step(g, [&](const int8_t* x, const int8_t* w) VPU_INLINE_LAMBDA {
    int8x16_t pair[pairs];
    for (int i = 0; i < pairs; ++i) {
      pair[i] = vcombine_s8(vld1_s8(x + 2 * i * stride), vld1_s8(x + (2 * i + 1) * stride));
    }
    for (int j = 0; j < kColumns / 2; ++j) {
      const int8x16_t columns = vld1q_s8(w + 16 * j);
      for (int i = 0; i < pairs; ++i) {
        products[i][j] = vmmlaq_s32(products[i][j], pair[i], columns);
      }
    }
  });
  Sums sums[2 * pairs];
  for (int i = 0; i < pairs; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int64x2_t left = vreinterpretq_s64_s32(products[i][2 * j]);
      const int64x2_t right = vreinterpretq_s64_s32(products[i][2 * j + 1]);
      sums[2 * i].part[j] = vreinterpretq_s32_s64(vtrn1q_s64(left, right));
      sums[2 * i + 1].part[j] = vreinterpretq_s32_s64(vtrn2q_s64(left, right));
    }
  }
  store_rows(g, sums);
}

void gemm_tile(const Gemm& g) {
  constexpr void (*tiles[])(const Gemm&) = {gemm_pairs<1>, gemm_pairs<2>, gemm_pairs<3>};
  tiles[(g.rows - 1) / 2](g);
}

void gemm(const Gemm& g) { for_each_tile<kRows, kColumns>(g, gemm_tile); }

}  // namespace

extern const Isa neon_i8mm_isa;
const Isa neon_i8mm_isa = neon_isa<8>("neon_i8mm", gemm);

}  // namespace vpu::isa
