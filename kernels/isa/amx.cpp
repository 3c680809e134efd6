// AMX: tiles of 16 rows of 64 bytes, multiplied signed by signed. A is read as it is.
#include "isa/avx512_inl.h"

namespace vpu::isa {
namespace {

constexpr int kTile = 16;         // the rows of a tile; the columns of a tile of B or of sums
constexpr int kRows = 2 * kTile;  // four tiles of sums, two of A, two of B
constexpr int kStep = 64;
constexpr ptrdiff_t kPanelStride = 4 * kColumns;

enum Tile { kC00, kC01, kC10, kC11, kA0, kA1, kB0, kB1 };

// ---- The instructions. The compilers' intrinsics do not tell GCC 12 all that they read and write.

struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

VPU_INLINE void configure(const TileShapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
VPU_INLINE void release() { asm volatile("tilerelease"); }

template <Tile tile>
VPU_INLINE void load(const void* from, ptrdiff_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile) : "memory");
}

template <Tile tile>
VPU_INLINE void store(void* to, ptrdiff_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
}

template <Tile tile>
VPU_INLINE void zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile));
}

template <Tile c, Tile a, Tile b>
VPU_INLINE void multiply_add() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
}

// ---- Matrix product.

constexpr ptrdiff_t kSumsStride = kColumns * sizeof(int32_t);

// The sums of a tile on their way to y, two rows at a time: what the vector units do while the
// next tile is being multiplied. Both kinds of units are needed for about as long, so that it saves
// what it can: what need not be asked for every row are template parameters.
template <bool with_residual, bool mapped, bool whole, bool may_overflow>
class Drain {
 public:
  explicit VPU_INLINE Drain(const Gemm& g)
      : requantize_(g.store),
        residual_(g.residual),
        y_stride_(g.y_stride),
        residual_stride_(g.residual.stride) {}

  // Of the tile at row m and column n.
  VPU_INLINE void start(const Gemm& g, int64_t m, int64_t n, const int32_t* sums) {
    multiplier0_ = _mm512_loadu_ps(g.multiplier + n);
    multiplier1_ = _mm512_loadu_ps(g.multiplier + n + 16);
    columns_ = static_cast<__mmask32>(first(g.columns - n));
    sums_ = sums;
    rows_ = smaller(kRows, g.rows - m);
    y_ = g.y + n;
    x_ = g.residual.x + n;
    if constexpr (mapped) {
      y_rows_ = g.y_rows + m;
    } else {
      y_ += m * y_stride_;
      x_ += m * residual_stride_;
    }
  }

  VPU_INLINE void some(int64_t pairs) {
    for (; pairs > 0 && rows_ > 0; --pairs) {
      two_rows();
      rows_ -= 2;
      sums_ += 2 * kColumns;
      if constexpr (mapped) {
        y_rows_ += 2;
      } else {
        y_ += 2 * y_stride_;
        if constexpr (with_residual) x_ += 2 * residual_stride_;
      }
    }
  }
  VPU_INLINE void all() { some(kTile); }

 private:
  // One of the two may not be there, or not to be stored.
  VPU_INLINE void two_rows() const {
    const int64_t row0 = mapped ? y_rows_[0] : 0;
    const int64_t row1 = rows_ == 1 ? -1 : mapped ? y_rows_[1] : 1;
    __m512 a0 = scaled(0, multiplier0_), b0 = scaled(16, multiplier1_);
    __m512 a1 = scaled(32, multiplier0_), b1 = scaled(48, multiplier1_);
    if constexpr (with_residual) {
      add_residual(row0, a0, b0);
      add_residual(row1, a1, b1);
    }
    __m512i y = requantize_.pack(round(a0), round(b0), round(a1), round(b1));
    if constexpr (!may_overflow) y = _mm512_min_epi8(y, requantize_.most);
    y = transpose_groups(y);
    store(row0, _mm512_castsi512_si256(y));
    store(row1, _mm512_extracti64x4_epi64(y, 1));
  }

  VPU_INLINE __m512 scaled(int at, __m512 multiplier) const {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums_ + at)), multiplier);
  }

  VPU_INLINE __m512i round(__m512 f) const {
    return may_overflow ? requantize_.round(f) : _mm512_cvtps_epi32(f);
  }

  VPU_INLINE void add_residual(int64_t row, __m512& a, __m512& b) const {
    const int8_t* x = x_ + (row < 0 ? 0 : row) * residual_stride_;
    a = residual_.add(a, load16(x, static_cast<__mmask16>(columns_)));
    b = residual_.add(b, load16(x + 16, static_cast<__mmask16>(columns_ >> 16)));
  }

  VPU_INLINE static __m128i load16(const int8_t* x, __mmask16 mask) {
    if constexpr (whole) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return _mm_maskz_loadu_epi8(mask, x);
  }

  VPU_INLINE void store(int64_t row, __m256i y) const {
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
  const int32_t* sums_ = nullptr;
  int64_t rows_ = 0;
  const int32_t* y_rows_ = nullptr;
  int8_t* y_ = nullptr;        // of the next row, or of row 0 where they are mapped
  const int8_t* x_ = nullptr;  // the same of the residual
  ptrdiff_t y_stride_;
  ptrdiff_t residual_stride_;
};

// One step of K: the upper rows of a tile, then the lower, which use the B that was loaded for
// them.
VPU_INLINE void multiply_upper(const std::byte* a, ptrdiff_t a_stride, const int8_t* b) {
  load<kA0>(a, a_stride);
  load<kB0>(b, kPanelStride);
  multiply_add<kC00, kA0, kB0>();
  load<kB1>(b + 4 * kTile, kPanelStride);
  multiply_add<kC01, kA0, kB1>();
}

VPU_INLINE void multiply_lower(const std::byte* a, ptrdiff_t a_stride) {
  load<kA1>(a + kTile * a_stride, a_stride);
  multiply_add<kC10, kA1, kB0>();
  multiply_add<kC11, kA1, kB1>();
}

VPU_INLINE void store_lower(int32_t* sums) {
  store<kC10>(sums + kTile * kColumns, kSumsStride);
  store<kC11>(sums + kTile * kColumns + kTile, kSumsStride);
}

// What the sums start from: the same bias in every row, or a bias for each, made in `sums`.
struct Start {
  const int32_t* from;
  ptrdiff_t stride;

  VPU_INLINE Start(const Gemm& g, int64_t m, int64_t n, int32_t* sums)
      : from(g.bias + n), stride(0) {
    if (g.row_bias == nullptr) return;
    for (int64_t i = 0; i < smaller(kRows, g.rows - m); ++i) {
      const __m512i row_bias = _mm512_set1_epi32(g.row_bias[m + i]);
      for (int j = 0; j < kColumns; j += 16) {
        const __m512i bias = _mm512_loadu_si512(g.bias + n + j);
        _mm512_store_si512(sums + i * kColumns + j, _mm512_add_epi32(bias, row_bias));
      }
    }
    from = sums;
    stride = kSumsStride;
  }

  VPU_INLINE void upper() const {
    load<kC00>(from, stride);
    load<kC01>(from + kTile, stride);
  }
  VPU_INLINE void lower() const {
    const int32_t* row = from + (stride != 0 ? kTile * kColumns : 0);
    load<kC10>(row, stride);
    load<kC11>(row + kTile, stride);
  }
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

// The lower rows of the tile before, in `lower` if there are any, are stored when this tile's first
// products are on their way; its own are left in the registers for the tile after.
template <bool both, class Drain>
VPU_INLINE void multiply(const Gemm& g, int64_t m, int64_t n, Drain& drain, Prefetch& next,
                         int32_t* lower, int32_t* sums) {
  const ptrdiff_t stride = g.a_stride;
  const std::byte* rows = g.a + m * stride;
  const int8_t* b = g.b + n * g.run_count * g.k;
  const int64_t k_end = g.k;
  const int32_t* run = g.runs;
  const int32_t* run_end = run + g.run_count;
  // Where there are few steps, some of the drain goes before and after them.
  const int64_t steps = k_end / kStep * g.run_count;
  const int64_t pairs = steps < 4 ? 4 : kTile / steps + 1;
  drain.some(steps < 4 ? 4 : 0);
  const Start start(g, m, n, sums);
  start.upper();
  multiply_upper(rows + *run, stride, b);
  if (lower != nullptr) store_lower(lower);
  if constexpr (both) {
    start.lower();
    multiply_lower(rows + *run, stride);
  }
  for (int64_t k = kStep;; k = 0) {
    for (; k < k_end; k += kStep) {
      drain.some(pairs);
      next.share();
      b += kStep * kColumns;
      multiply_upper(rows + *run + k, stride, b);
      if constexpr (both) multiply_lower(rows + *run + k, stride);
    }
    if (++run == run_end) break;
  }
  drain.some(pairs);
  next.share();
  store<kC00>(sums, kSumsStride);
  drain.some(2);
  store<kC01>(sums + kTile, kSumsStride);
  drain.all();
}

// Panels that fit the L1 cache together are gone through for each tile of rows: y is written, and
// the residual read, in whole cache lines.
VPU_INLINE int64_t columns_together(int64_t panel_bytes) {
  constexpr int64_t kBytes = 20 * 1024;
  const int64_t panels = kBytes / panel_bytes;
  return (panels < 1 ? 1 : panels < 4 ? panels : panels & ~int64_t{1}) * kColumns;
}

template <bool with_residual, bool mapped, bool whole, bool may_overflow>
__attribute__((noinline)) void multiply_all(const Gemm& g) {
  alignas(64) int32_t sums[2][kRows * kColumns];
  Drain<with_residual, mapped, whole, may_overflow> drain(g);
  const int64_t panel_k = g.run_count * g.k;
  const int64_t together = columns_together(panel_k * kColumns);
  const int64_t steps = panel_k / kStep * ((g.rows + kRows - 1) / kRows);
  int turn = 0;
  int32_t* lower = nullptr;
  for (int64_t begin = 0; begin < g.columns; begin += together) {
    const int64_t end = smaller(begin + together, g.columns);
    const int64_t next_columns = smaller(together, g.columns - end);
    Prefetch next(g.b + end * panel_k, next_columns * panel_k,
                  steps * ((end - begin + kColumns - 1) / kColumns));
    for (int64_t m = 0; m < g.rows; m += kRows) {
      for (int64_t n = begin; n < end; n += kColumns, turn ^= 1) {
        const bool both = g.rows - m > kTile;
        if (both) {
          multiply<true>(g, m, n, drain, next, lower, sums[turn]);
        } else {
          multiply<false>(g, m, n, drain, next, lower, sums[turn]);
        }
        lower = both ? sums[turn] : nullptr;
        drain.start(g, m, n, sums[turn]);
      }
    }
  }
  if (lower != nullptr) store_lower(lower);
  drain.all();
}

template <bool with_residual, bool mapped>
void multiply_any(const Gemm& g) {
  if (!g.fits_int) return multiply_all<with_residual, mapped, false, true>(g);
  if (g.columns % kColumns != 0) return multiply_all<with_residual, mapped, false, false>(g);
  multiply_all<with_residual, mapped, true, false>(g);
}

void gemm(const Gemm& g) {
  static constexpr TileShapes shapes;
  configure(shapes);
  if (g.residual.x != nullptr) {
    g.y_rows != nullptr ? multiply_any<true, true>(g) : multiply_any<true, false>(g);
  } else {
    g.y_rows != nullptr ? multiply_any<false, true>(g) : multiply_any<false, false>(g);
  }
  release();
}

int64_t peak(int64_t iterations) {
  static constexpr TileShapes shapes;
  configure(shapes);
  for (int64_t i = 0; i < iterations; ++i) {
    multiply_add<kC00, kA0, kB0>();
    multiply_add<kC01, kA0, kB1>();
    multiply_add<kC10, kA1, kB0>();
    multiply_add<kC11, kA1, kB1>();
  }
  release();
  return iterations * kRows * kColumns * kStep;
}

constexpr Isa make() {
  Isa isa = avx512_isa("amx");
  isa.peak = peak;
  isa.gemm_tile = {kRows, kColumns, 4, kStep, 1, 0};
  isa.pack_a = pack_a<0>;
  isa.pack_b = pack_b_plain<kColumns, 4, kStep>;
  isa.gemm = gemm;
  return isa;
}

}  // namespace

extern const Isa amx_isa;
const Isa amx_isa = make();

}  // namespace vpu::isa
