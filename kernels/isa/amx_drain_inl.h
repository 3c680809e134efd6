// What becomes of the sums that AMX has left in memory.
#pragma once

#include "isa/amx_block_inl.h"

namespace vpu::isa {
namespace {

// The sums of a block on their way to y, a unit of four vectors at a time: what the vector units do
// while the next block is being multiplied. Both kinds of units are needed for about as long, so
// that it saves what it can: what need not be asked for every row are template parameters.
template <bool tall, bool with_residual, bool mapped, bool whole, bool may_overflow>
class Drain {
 public:
  explicit VPU_INLINE Drain(const Gemm& g)
      : requantize_(g.store),
        residual_(g.residual),
        y_stride_(g.y_stride),
        residual_stride_(g.residual.stride) {}

  // Of the block at row m and column n.
  VPU_INLINE void start(const Gemm& g, int64_t m, int64_t n, const int32_t* sums) {
    const int64_t rows = smaller(Block<tall>::kRows, g.rows - m);
    units_ = rows / kUnitRows;
    rest_ = rows % kUnitRows;
    sums_ = sums;
    multiplier0_ = _mm512_loadu_ps(g.multiplier + n);
    multiplier1_ = tall ? multiplier0_ : _mm512_loadu_ps(g.multiplier + n + kTile);
    columns_ = static_cast<__mmask32>(isa::first(g.columns - n));
    y_ = g.y + n;
    if constexpr (with_residual) x_ = g.residual.x + n;
    if constexpr (mapped) {
      y_rows_ = g.y_rows + m;
    } else {
      y_ += m * y_stride_;
      if constexpr (with_residual) x_ += m * residual_stride_;
    }
  }

  VPU_INLINE void some(int64_t units) {
    for (units = smaller(units, units_), units_ -= units; units > 0; --units) {
      unit(kUnitRows);
      sums_ += 4 * kTile;
      if constexpr (mapped) {
        y_rows_ += kUnitRows;
      } else {
        y_ += kUnitRows * y_stride_;
        if constexpr (with_residual) x_ += kUnitRows * residual_stride_;
      }
    }
  }

  VPU_INLINE void all() {
    some(units_);
    if (rest_ > 0) unit(rest_);
    rest_ = 0;
  }

 private:
  static constexpr int kUnitRows = tall ? 4 : 2;

  VPU_INLINE void unit(int64_t rows) const {
    __m512 f0 = scaled<0>(), f1 = scaled<1>(), f2 = scaled<2>(), f3 = scaled<3>();
    if constexpr (with_residual) {
      f0 = residual_.add(f0, residual<0>(rows));
      f1 = residual_.add(f1, residual<1>(rows));
      f2 = residual_.add(f2, residual<2>(rows));
      f3 = residual_.add(f3, residual<3>(rows));
    }
    __m512i y = requantize_.pack(round(f0), round(f1), round(f2), round(f3));
    if constexpr (!may_overflow) y = _mm512_min_epi8(y, requantize_.most);
    y = transpose_groups(y);
    if constexpr (tall) {
      store16<0>(rows, _mm512_castsi512_si128(y));
      store16<1>(rows, _mm512_extracti32x4_epi32(y, 1));
      store16<2>(rows, _mm512_extracti32x4_epi32(y, 2));
      store16<3>(rows, _mm512_extracti32x4_epi32(y, 3));
    } else {
      store32<0>(rows, _mm512_castsi512_si256(y));
      store32<1>(rows, _mm512_extracti64x4_epi64(y, 1));
    }
  }

  // Of the unit's vectors: one after another in memory; a row of it has one, or two.
  template <int i>
  VPU_INLINE __m512 scaled() const {
    const __m512i sums = _mm512_load_si512(sums_ + i * kTile);
    return _mm512_mul_ps(_mm512_cvtepi32_ps(sums), i % 2 == 0 ? multiplier0_ : multiplier1_);
  }

  VPU_INLINE __m512i round(__m512 f) const {
    return may_overflow ? requantize_.round(f) : _mm512_cvtps_epi32(f);
  }

  template <int i>
  VPU_INLINE __m128i residual(int64_t rows) const {
    const int64_t row = readable(y_row<tall ? i : i / 2>(rows));
    constexpr int column = tall ? 0 : i % 2 * kTile;
    const int8_t* x = x_ + row * residual_stride_ + column;
    if constexpr (whole) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return _mm_maskz_loadu_epi8(static_cast<__mmask16>(columns_ >> column), x);
  }

  // A row that is not stored may read any residual.
  VPU_INLINE static int64_t readable(int64_t row) { return row < 0 ? 0 : row; }

  // Negative: not to be stored.
  template <int i>
  VPU_INLINE int64_t y_row(int64_t rows) const {
    if (i >= rows) return -1;
    return mapped ? y_rows_[i] : i;
  }

  template <int i>
  VPU_INLINE void store16(int64_t rows, __m128i y) const {
    const int64_t row = y_row<i>(rows);
    if (row < 0) return;
    int8_t* to = y_ + row * y_stride_;
    if constexpr (whole) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), y);
    } else {
      _mm_mask_storeu_epi8(to, static_cast<__mmask16>(columns_), y);
    }
  }
  template <int i>
  VPU_INLINE void store32(int64_t rows, __m256i y) const {
    const int64_t row = y_row<i>(rows);
    if (row < 0) return;
    int8_t* to = y_ + row * y_stride_;
    if constexpr (whole) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), y);
    } else {
      _mm256_mask_storeu_epi8(to, columns_, y);
    }
  }

  Requantize requantize_;
  ResidualVector residual_;
  __m512 multiplier0_;
  __m512 multiplier1_;
  __mmask32 columns_ = 0;
  int64_t units_ = 0;
  int64_t rest_ = 0;  // rows after the last unit
  const int32_t* sums_ = nullptr;
  const int32_t* y_rows_ = nullptr;
  int8_t* y_ = nullptr;        // of the next row, or of row 0 where they are mapped
  const int8_t* x_ = nullptr;  // the same of the residual
  ptrdiff_t y_stride_;
  ptrdiff_t residual_stride_;
};

}  // namespace
}  // namespace vpu::isa
