// What AMX multiplies at a time: a block of four tiles of sums.
#pragma once

#include "isa/avx512_inl.h"
#include "isa/tiles_inl.h"

namespace vpu::isa {
namespace {

constexpr int kTile = 16;   // the rows of a tile; the columns of a tile of B or of sums
constexpr int kPanel = 32;  // columns: two tiles
constexpr int kStep = 64;   // of K
constexpr ptrdiff_t kTileBytes = kTile * kStep;

enum Tile { kC0, kC1, kC2, kC3, kA0, kA1, kB0, kB1 };

// Two by two tiles; or, `tall`, four by one.
template <bool tall>
struct Block {
  static constexpr int kRows = tall ? 4 * kTile : 2 * kTile;
  static constexpr int kColumns = tall ? kTile : 2 * kTile;
  static constexpr ptrdiff_t kStride = kColumns * sizeof(int32_t);  // of the sums in memory

  // The first two tiles are stored a while before the others, as they are done.
  VPU_INLINE static void store_first(int32_t* sums) {
    store<kC0>(sums, kStride);
    store<kC1>(sums + (tall ? kTile * kColumns : kTile), kStride);
  }
  VPU_INLINE static void store_last(int32_t* sums) {
    store<kC2>(sums + (tall ? 2 : 1) * kTile * kColumns, kStride);
    store<kC3>(sums + (tall ? 3 : 1) * kTile * kColumns + (tall ? 0 : kTile), kStride);
  }

  // A step of K. The last two tiles use what was loaded of B for the first.
  VPU_INLINE static void multiply_first(const std::byte* a, ptrdiff_t a_stride, const int8_t* b,
                                        ptrdiff_t half_panel) {
    load<kA0>(a, a_stride);
    load<kB0>(b, kStep);
    multiply_add<kC0, kA0, kB0>();
    if constexpr (tall) {
      load<kA1>(a + kTile * a_stride, a_stride);
      multiply_add<kC1, kA1, kB0>();
    } else {
      load<kB1>(b + half_panel, kStep);
      multiply_add<kC1, kA0, kB1>();
    }
  }
  VPU_INLINE static void multiply_last(const std::byte* a, ptrdiff_t a_stride) {
    if constexpr (tall) {
      load<kA0>(a + 2 * kTile * a_stride, a_stride);
      multiply_add<kC2, kA0, kB0>();
      load<kA1>(a + 3 * kTile * a_stride, a_stride);
      multiply_add<kC3, kA1, kB0>();
    } else {
      load<kA1>(a + kTile * a_stride, a_stride);
      multiply_add<kC2, kA1, kB0>();
      multiply_add<kC3, kA1, kB1>();
    }
  }
};

// What the sums start from: the same bias in every row, or a bias for each, made in `sums`.
template <bool tall>
class Start {
 public:
  VPU_INLINE Start(const Gemm& g, int64_t m, int64_t n, int32_t* sums)
      : from_(g.bias + n), stride_(0), next_row_(0) {
    if (g.row_bias == nullptr) return;
    for (int64_t i = 0; i < smaller(Block<tall>::kRows, g.rows - m); ++i) {
      const __m512i row_bias = _mm512_set1_epi32(g.row_bias[m + i]);
      for (int j = 0; j < Block<tall>::kColumns; j += kTile) {
        const __m512i bias = _mm512_loadu_si512(g.bias + n + j);
        _mm512_store_si512(sums + i * Block<tall>::kColumns + j, _mm512_add_epi32(bias, row_bias));
      }
    }
    from_ = sums;
    stride_ = Block<tall>::kStride;
    next_row_ = kTile * Block<tall>::kColumns;
  }

  VPU_INLINE void first() const {
    load<kC0>(from_, stride_);
    load<kC1>(from_ + (tall ? next_row_ : kTile), stride_);
  }
  VPU_INLINE void last() const {
    load<kC2>(from_ + (tall ? 2 : 1) * next_row_, stride_);
    load<kC3>(from_ + (tall ? 3 * next_row_ : next_row_ + kTile), stride_);
  }

 private:
  const int32_t* from_;
  ptrdiff_t stride_;
  ptrdiff_t next_row_;  // of tiles
};

}  // namespace
}  // namespace vpu::isa
