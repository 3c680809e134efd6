// Portable C++, for any CPU. Also the plainest statement of what a micro-kernel computes.
#include "isa/portable_inl.h"

namespace vpu::isa {
namespace {

inline float residual_of(int8_t x, const Residual& residual) {
  return static_cast<float>(x - residual.zero_point) * residual.multiplier;
}

// Sums wrap: the true sum fits, what a packed operand's offset adds on the way need not.
inline uint32_t product(int32_t x, int32_t w) { return static_cast<uint32_t>(x * w); }

constexpr int kRows = 4;
constexpr int kColumns = 8;

// A and B as they are, one k at a time.
void gemm_tile(const Gemm& g) {
  uint32_t acc[kRows][kColumns];
  for (int i = 0; i < kRows; ++i) {
    const uint32_t bias = g.row_bias && i < g.rows ? static_cast<uint32_t>(g.row_bias[i]) : 0;
    for (int n = 0; n < kColumns; ++n) acc[i][n] = static_cast<uint32_t>(g.bias[n]) + bias;
  }
  const int8_t* b = g.b;
  for (int64_t r = 0; r < g.run_count; ++r) {
    const int8_t* a = reinterpret_cast<const int8_t*>(g.a) + g.runs[r];
    for (int64_t k = 0; k < g.k; ++k, b += kColumns) {
      for (int i = 0; i < kRows; ++i) {
        const int32_t x = a[i * g.a_stride + k];
        for (int n = 0; n < kColumns; ++n) acc[i][n] += product(x, b[n]);
      }
    }
  }
  for (int i = 0; i < g.rows; ++i) {
    const int64_t row = y_row(g, i);
    if (row < 0) continue;
    for (int n = 0; n < g.columns; ++n) {
      float f = static_cast<float>(static_cast<int32_t>(acc[i][n])) * g.multiplier[n];
      if (g.residual.x) f = f + residual_of(g.residual.x[row * g.residual.stride + n], g.residual);
      g.y[row * g.y_stride + n] = store_one(f, g.store);
    }
  }
}

void gemm(const Gemm& g) { for_each_tile<kRows, kColumns>(g, gemm_tile); }

constexpr int kBlock = 16;

// Channels in order, one tap at a time.
void depthwise(const Depthwise& d) {
  for (int64_t c = 0; c < d.channels; c += kBlock) {
    const int64_t n = smaller(kBlock, d.channels - c);
    for (int64_t p = 0; p < d.pixels; ++p) {
      uint32_t acc[kBlock];
      for (int i = 0; i < kBlock; ++i) acc[i] = static_cast<uint32_t>(d.bias[c + i]);
      for (int t = 0; t < d.tap_count; ++t) {
        const int8_t* x = d.taps[t] + p * d.x_stride + c;
        const int8_t* w = d.weight + c * d.tap_count + t * kBlock;
        for (int64_t i = 0; i < n; ++i) acc[i] += product(x[i], w[i]);
      }
      for (int64_t i = 0; i < n; ++i) {
        float f = static_cast<float>(static_cast<int32_t>(acc[i])) * d.multiplier[c + i];
        if (d.residual.x) {
          f = f + residual_of(d.residual.x[p * d.residual.stride + c + i], d.residual);
        }
        d.y[p * d.y_stride + c + i] = store_one(f, d.store);
      }
    }
  }
}

constexpr Isa make() {
  Isa isa = plain_isa("scalar");
  isa.gemm_tile = {kRows, kColumns, 1, 1, 1, 0};
  isa.pack_a = pack_a_plain;
  isa.pack_b = pack_b_plain<kColumns, 1, 1>;
  isa.gemm = gemm;
  isa.depthwise_tile = {kBlock, 1, nullptr, 0, false};
  isa.depthwise = depthwise;
  return isa;
}

}  // namespace

extern const Isa scalar_isa;
const Isa scalar_isa = make();

}  // namespace vpu::isa
