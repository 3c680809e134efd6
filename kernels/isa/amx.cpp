// AMX: tiles of 16 rows of 64 bytes, multiplied signed by signed. A is read as it is.
#include "isa/avx512_inl.h"
#include "isa/tiles_inl.h"

namespace vpu::isa {
namespace {

constexpr int kTile = 16;   // the rows of a tile; the columns of a tile of B or of sums
constexpr int kPanel = 32;  // columns
constexpr int kStep = 64;   // of K
constexpr int kRows = 2 * kTile;
constexpr ptrdiff_t kTileBytes = kTile * kStep;

enum Tile { kC0, kC1, kC2, kC3, kA0, kA1, kB0, kB1 };

struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// ---- Matrix product.

// Four tiles of sums at a time: two by two; or four by one, which goes through B once for as many
// as 64 rows: where few rows use it, B comes from memory. A is read twice as often, and should be
// in the L1 cache.
constexpr int64_t kTallBytes = 32 * 1024;

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
    x_ = g.residual.x + n;
    if constexpr (mapped) {
      y_rows_ = g.y_rows + m;
    } else {
      y_ += m * y_stride_;
      x_ += m * residual_stride_;
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

void gemm(const Gemm& g) {
  static constexpr TileShapes shapes;
  configure(shapes);
  const bool few_rows = g.rows > Block<false>::kRows && g.rows <= Block<true>::kRows &&
                        g.rows * g.a_stride <= kTallBytes;
  const bool tall = few_rows || g.columns <= kTile;
  tall ? multiply_any<true>(g) : multiply_any<false>(g);
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
  isa.gemm_tile = {kRows, kPanel, 4, kStep, 1, 0};
  isa.pack_a = pack_a<0>;
  isa.pack_b = pack_b;
  isa.gemm = gemm;
  return isa;
}

}  // namespace

extern const Isa amx_isa;
const Isa amx_isa = make();

}  // namespace vpu::isa
