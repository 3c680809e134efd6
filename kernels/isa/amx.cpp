// AMX: tiles of 16 rows of 64 bytes, multiplied signed by signed. A is read as it is.
#include "isa/amx_drain_inl.h"

namespace vpu::isa {
namespace {

struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// ---- Matrix product.

// The weights that come next, fetched into the L2 cache a share at a time. The CPU notices the
// order, and completes what is asked for in steps.
class Prefetch {
 public:
  VPU_INLINE Prefetch(const int8_t* begin, int64_t bytes, int64_t shares)
      : at_(begin), share_((bytes / kBytes + shares - 1) / shares * kBytes) {}

  VPU_INLINE void share() {
    for (const int8_t* end = at_ + share_; at_ < end; at_ += kBytes) {
      _mm_prefetch(at_, _MM_HINT_T1);
    }
  }

 private:
  static constexpr int64_t kBytes = 256;
  const int8_t* at_;
  int64_t share_;
};

// The last two tiles of the block before, to be stored in `unstored` if there are any, are when
// this block's first products are on their way; its own are left in the registers for the block
// after.
template <bool tall, bool both, class Drain>
VPU_INLINE void multiply(const Gemm& g, int64_t m, int64_t n, Drain& drain, Prefetch& next,
                         int32_t* unstored, int32_t* sums) {
  using Block = isa::Block<tall>;
  const ptrdiff_t stride = g.a_stride;
  const ptrdiff_t half_panel = g.k * kTile;
  const std::byte* rows = g.a + m * stride;
  const int8_t* b = g.b + n / kPanel * kPanel * g.run_count * g.k + n % kPanel / kTile * half_panel;
  const int32_t* run = g.runs;
  const int32_t* run_end = run + g.run_count;
  const int64_t steps = g.k / kStep * g.run_count;
  const int64_t units = (kTile + steps - 1) / steps;
  const std::byte* a = rows + *run;
  const Start<tall> start(g, m, n, sums);
  start.first();
  Block::multiply_first(a, stride, b, half_panel);
  if (unstored != nullptr) Block::store_last(unstored);
  if constexpr (both) {
    start.last();
    Block::multiply_last(a, stride);
  }
  for (int64_t k = kStep;;) {
    drain.some(units);
    next.share();
    a += kStep;
    b += kTileBytes;
    if (k == g.k) {
      if (++run == run_end) break;
      a = rows + *run;
      b += half_panel;
      k = 0;
    }
    k += kStep;
    Block::multiply_first(a, stride, b, half_panel);
    if constexpr (both) Block::multiply_last(a, stride);
  }
  Block::store_first(sums);
  drain.all();
}

// Panels that fit the L1 cache together are gone through for each block of rows: y is written, and
// the residual read, in whole cache lines.
VPU_INLINE int64_t columns_together(int64_t panel_bytes) {
  constexpr int64_t kBytes = 20 * 1024;
  const int64_t panels = kBytes / panel_bytes;
  return (panels < 1 ? 1 : panels < 4 ? panels : panels & ~int64_t{1}) * kPanel;
}

template <bool tall, bool with_residual, bool mapped, bool whole, bool may_overflow>
__attribute__((noinline)) void multiply_all(const Gemm& g) {
  using Block = isa::Block<tall>;
  alignas(64) int32_t sums[2][Block::kRows * Block::kColumns];
  Drain<tall, with_residual, mapped, whole, may_overflow> drain(g);
  const int64_t panel_k = g.run_count * g.k;
  const int64_t together = columns_together(panel_k * kPanel);
  const int64_t row_blocks = (g.rows + Block::kRows - 1) / Block::kRows;
  int turn = 0;
  int32_t* unstored = nullptr;
  for (int64_t begin = 0; begin < g.columns; begin += together) {
    const int64_t end = smaller(begin + together, g.columns);
    const int64_t column_blocks = (end - begin + Block::kColumns - 1) / Block::kColumns;
    const int64_t next_columns = smaller(together, g.columns - end);
    Prefetch next(g.b + end * panel_k, next_columns * panel_k,
                  panel_k / kStep * row_blocks * column_blocks);
    for (int64_t m = 0; m < g.rows; m += Block::kRows) {
      for (int64_t n = begin; n < end; n += Block::kColumns, turn ^= 1) {
        const bool both = g.rows - m > Block::kRows / 2;
        if (both) {
          multiply<tall, true>(g, m, n, drain, next, unstored, sums[turn]);
        } else {
          multiply<tall, false>(g, m, n, drain, next, unstored, sums[turn]);
        }
        unstored = both ? sums[turn] : nullptr;
        drain.start(g, m, n, sums[turn]);
      }
    }
  }
  if (unstored != nullptr) Block::store_last(unstored);
  drain.all();
}

template <bool tall, bool with_residual, bool mapped>
void multiply_any(const Gemm& g) {
  if (!g.fits_int) return multiply_all<tall, with_residual, mapped, false, true>(g);
  if (g.columns % kPanel != 0) return multiply_all<tall, with_residual, mapped, false, false>(g);
  multiply_all<tall, with_residual, mapped, true, false>(g);
}

template <bool tall>
void multiply_any(const Gemm& g) {
  if (g.residual.x != nullptr) {
    g.y_rows != nullptr ? multiply_any<tall, true, true>(g) : multiply_any<tall, true, false>(g);
  } else {
    g.y_rows != nullptr ? multiply_any<tall, false, true>(g) : multiply_any<tall, false, false>(g);
  }
}

// A block of 64 x 16 goes through B once for as many as 64 rows: where few rows use it, B comes
// from memory. It reads A twice as often, which should be in the L1 cache. It is also the one for
// few columns.
bool wants_tall_blocks(const Gemm& g) {
  constexpr int64_t kBytes = 32 * 1024;
  const bool few_rows = g.rows > Block<false>::kRows && g.rows <= Block<true>::kRows;
  return g.columns <= kTile || (few_rows && g.rows * g.a_stride <= kBytes);
}

void gemm(const Gemm& g) {
  static constexpr TileShapes shapes;
  configure(shapes);
  wants_tall_blocks(g) ? multiply_any<true>(g) : multiply_any<false>(g);
  release();
}

// A panel is two halves of as many columns as a tile has.
void pack_b(int8_t* panel, const int8_t* b, ptrdiff_t k_stride, ptrdiff_t n_stride, int64_t k,
            int64_t n) {
  const int64_t half_panel = (k + kStep - 1) / kStep * kStep * kTile;
  const int64_t left = smaller(n, kTile);
  pack_b_plain<kTile, 4, kStep>(panel, b, k_stride, n_stride, k, left);
  pack_b_plain<kTile, 4, kStep>(panel + half_panel, b + left * n_stride, k_stride, n_stride, k,
                                n - left);
}

int64_t peak(int64_t iterations) {
  static constexpr TileShapes shapes;
  configure(shapes);
  for (int64_t i = 0; i < iterations; ++i) {
    multiply_add<kC0, kA0, kB0>();
    multiply_add<kC1, kA0, kB1>();
    multiply_add<kC2, kA1, kB0>();
    multiply_add<kC3, kA1, kB1>();
  }
  release();
  return iterations * 4 * kTile * kTile * kStep;
}

constexpr Isa make() {
  Isa isa = avx512_isa("amx");
  isa.peak = peak;
  isa.gemm_tile = {2 * kTile, kPanel, 4, kStep, 1, 0};
  isa.pack_a = pack_a<0>;
  isa.pack_b = pack_b;
  isa.gemm = gemm;
  return isa;
}

}  // namespace

extern const Isa amx_isa;
const Isa amx_isa = make();

}  // namespace vpu::isa
