// NEON with the dot products of Armv8.2.
#include "isa/neon_inl.h"

namespace vpu::isa {
namespace {

// sdot multiplies four bytes of a row by four of each of four columns.
template <int rows>
__attribute__((noinline)) void gemm_rows(const Gemm& g) {
  Sums sums[rows];
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < 4; ++j) sums[i].part[j] = vdupq_n_s32(0);
  }
  const ptrdiff_t stride = g.a_stride;
  for_each_step(g, [&](const int8_t* x, const int8_t* w) VPU_INLINE_LAMBDA {
    int8x8_t row[rows];
    for (int i = 0; i < rows; ++i) row[i] = vld1_s8(x + i * stride);
    for (int j = 0; j < 4; ++j) {
      const int8x16_t w0 = vld1q_s8(w + 16 * j);
      const int8x16_t w1 = vld1q_s8(w + 16 * j + 4 * kColumns);
      for (int i = 0; i < rows; ++i) {
        sums[i].part[j] = vdotq_lane_s32(sums[i].part[j], w0, row[i], 0);
        sums[i].part[j] = vdotq_lane_s32(sums[i].part[j], w1, row[i], 1);
      }
    }
  });
  store_rows(g, sums);
}

void gemm_tile(const Gemm& g) {
  constexpr void (*tiles[])(const Gemm&) = {gemm_rows<1>, gemm_rows<2>, gemm_rows<3>,
                                            gemm_rows<4>, gemm_rows<5>, gemm_rows<6>};
  tiles[g.rows - 1](g);
}

void gemm(const Gemm& g) { for_each_tile<kRows, kColumns>(g, gemm_tile); }

}  // namespace

extern const Isa neon_dotprod_isa;
const Isa neon_dotprod_isa = neon_isa<4>("neon_dotprod", gemm);

}  // namespace vpu::isa
