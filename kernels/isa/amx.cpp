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

// The sums of a tile on their way to y, two rows at a time: what the vector units do while the
// next tile is being multiplied.
template <class Epilogue>
class Drain {
 public:
  explicit VPU_INLINE Drain(const Gemm& g) : epilogue_(g) {}

  // Rows [row, row + rows) of a panel.
  VPU_INLINE void start(const Gemm& panel, int64_t row, int64_t rows, const int32_t* sums) {
    epilogue_ = Epilogue(panel);
    row_ = row;
    end_ = row + rows;
    sums_ = sums;
  }

  VPU_INLINE void some(int64_t pairs) {
    for (; pairs > 0 && row_ < end_; --pairs) two_rows();
  }
  VPU_INLINE void all() { some(kTile); }

 private:
  VPU_INLINE void two_rows() {
    const __m512i bias0 = _mm512_loadu_si512(epilogue_.g->bias);
    const __m512i bias1 = _mm512_loadu_si512(epilogue_.g->bias + 16);
    __m512i a0 = _mm512_add_epi32(_mm512_load_si512(sums_), bias0);
    __m512i b0 = _mm512_add_epi32(_mm512_load_si512(sums_ + 16), bias1);
    __m512i a1 = _mm512_add_epi32(_mm512_load_si512(sums_ + 32), bias0);
    __m512i b1 = _mm512_add_epi32(_mm512_load_si512(sums_ + 48), bias1);
    const bool both = row_ + 1 < end_;
    if (const int32_t* row_bias = epilogue_.g->row_bias) {
      const __m512i r0 = _mm512_set1_epi32(row_bias[row_]);
      const __m512i r1 = _mm512_set1_epi32(row_bias[both ? row_ + 1 : row_]);
      a0 = _mm512_add_epi32(a0, r0), b0 = _mm512_add_epi32(b0, r0);
      a1 = _mm512_add_epi32(a1, r1), b1 = _mm512_add_epi32(b1, r1);
    }
    if (both) {
      epilogue_.template two_rows<true>(row_, a0, b0, a1, b1);
    } else {
      epilogue_.template two_rows<false>(row_, a0, b0, a1, b1);
    }
    row_ += 2;
    sums_ += 2 * kColumns;
  }

  Epilogue epilogue_;
  int64_t row_ = 0;
  int64_t end_ = 0;
  const int32_t* sums_ = nullptr;
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

constexpr ptrdiff_t kSumsStride = kColumns * sizeof(int32_t);

VPU_INLINE void store_lower(int32_t* sums) {
  store<kC10>(sums + kTile * kColumns, kSumsStride);
  store<kC11>(sums + kTile * kColumns + kTile, kSumsStride);
}

// The weights that come next, fetched into the L2 cache a share at a time.
class Prefetch {
 public:
  VPU_INLINE Prefetch(const int8_t* begin, int64_t bytes, int64_t shares)
      : at_(begin), end_(begin + bytes), share_((bytes / 64 + shares - 1) / shares * 64) {}

  VPU_INLINE void share() {
    for (const int8_t* to = at_ + share_; at_ < to && at_ < end_; at_ += 64) {
      _mm_prefetch(at_, _MM_HINT_T1);
    }
  }

 private:
  const int8_t* at_;
  const int8_t* end_;
  int64_t share_;
};

// The lower rows of the tile before, in `lower` if there are any, are stored when this tile's first
// products are on their way; its own are left in the registers for the tile after.
template <bool both, class Drain>
VPU_INLINE void multiply(const Gemm& panel, int64_t row, Drain& drain, Prefetch& next,
                         int32_t* lower, int32_t* sums) {
  const ptrdiff_t stride = panel.a_stride;
  const std::byte* rows = panel.a + row * stride;
  const int8_t* b = panel.b;
  const int64_t k_end = panel.k;
  const int32_t* run = panel.runs;
  const int32_t* run_end = run + panel.run_count;
  // Where there are few steps, some of the drain goes before and after them.
  const int64_t steps = k_end / kStep * panel.run_count;
  const int64_t pairs = steps < 4 ? 4 : kTile / steps + 1;
  drain.some(steps < 4 ? 4 : 0);
  zero<kC00>();
  zero<kC01>();
  multiply_upper(rows + *run, stride, b);
  if (lower != nullptr) store_lower(lower);
  if constexpr (both) {
    zero<kC10>();
    zero<kC11>();
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

template <class Epilogue>
void multiply_panels(const Gemm& g) {
  alignas(64) int32_t sums[2][kRows * kColumns];
  Gemm panels[2];
  Drain<Epilogue> drain(g);
  const int64_t panel_bytes = g.run_count * g.k * kColumns;
  const int64_t steps = g.run_count * g.k / kStep * ((g.rows + kRows - 1) / kRows);
  int turn = 0;
  int32_t* lower = nullptr;
  for (int64_t n = 0; n < g.columns; n += kColumns) {
    Gemm& panel = panels[n / kColumns % 2] = panel_of<kColumns>(g, n);
    const bool last = n + kColumns >= g.columns;
    Prefetch next(panel.b + panel_bytes, last ? 0 : panel_bytes, steps);
    for (int64_t m = 0; m < g.rows; m += kRows, turn ^= 1) {
      const bool both = g.rows - m > kTile;
      if (both) {
        multiply<true>(panel, m, drain, next, lower, sums[turn]);
      } else {
        multiply<false>(panel, m, drain, next, lower, sums[turn]);
      }
      lower = both ? sums[turn] : nullptr;
      drain.start(panel, m, smaller(kRows, g.rows - m), sums[turn]);
    }
  }
  if (lower != nullptr) store_lower(lower);
  drain.all();
}

void gemm(const Gemm& g) {
  static constexpr TileShapes shapes;
  configure(shapes);
  // Beside tile instructions, the CPU has one port left for vectors of floats: spare operations.
  const auto multiply = !g.fits_int                ? multiply_panels<Epilogue<true, true, true>>
                        : g.residual.x && g.y_rows ? multiply_panels<Epilogue<true, true, false>>
                        : g.residual.x             ? multiply_panels<Epilogue<true, false, false>>
                        : g.y_rows                 ? multiply_panels<Epilogue<false, true, false>>
                                                   : multiply_panels<Epilogue<false, false, false>>;
  multiply(g);
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
