// AVX2. Its byte multiply (vpmaddubsw) saturates, so products are of 16-bit pairs (vpmaddwd), which
// is exact: A is packed widened, B is widened as it is loaded.
#include <immintrin.h>

#include "isa/compiler.h"
#include "isa/portable_inl.h"

namespace vpu::isa {
namespace {

constexpr int kColumns = 16;  // two vectors of accumulators
constexpr int kRows = 6;      // 12 accumulators + 2 of B + 1 of A + 1 of products = 16 registers

VPU_INLINE __m128i load16(const int8_t* x) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
}
VPU_INLINE __m256i load32(const void* x) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(x));
}

VPU_INLINE void widen16(std::byte* dst, const int8_t* src) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), _mm256_cvtepi8_epi16(load16(src)));
}
VPU_INLINE void widen8(std::byte* dst, const int8_t* src) {
  const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), _mm_cvtepi8_epi16(x));
}
VPU_INLINE void widen1(std::byte* dst, const int8_t* src) {
  const int16_t x = *src;
  memcpy(dst, &x, sizeof(x));
}

// Runs of at least `width`; the last step overlaps the one before.
template <int64_t width, void (*widen)(std::byte*, const int8_t*)>
void pack_runs(std::byte* dst, ptrdiff_t dst_stride, const int8_t* src, ptrdiff_t src_stride,
               int64_t rows, int64_t n) {
  for (; rows > 0; --rows, dst += dst_stride, src += src_stride) {
    for (int64_t i = 0; i < n - width; i += width) widen(dst + 2 * i, src + i);
    widen(dst + 2 * (n - width), src + n - width);
  }
}

void pack_a(std::byte* dst, ptrdiff_t dst_stride, const int8_t* src, ptrdiff_t src_stride,
            int64_t rows, int64_t n) {
  const auto pack = n >= 16  ? pack_runs<16, widen16>
                    : n >= 8 ? pack_runs<8, widen8>
                             : pack_runs<1, widen1>;
  pack(dst, dst_stride, src, src_stride, rows, n);
}

// ---- Requantization of int32 accumulators. The lower bound needs no float clamp: what is below
// int32 converts to INT_MIN, and packing saturates.

struct Requantize {
  __m256 hi;
  __m128i zero_point;  // int16
  __m128i lo;          // int8
  bool with_residual;
  __m256i residual_zero_point;
  __m256 residual_multiplier;

  VPU_INLINE Requantize(const Store& store, const Residual& residual)
      : hi(_mm256_set1_ps(store.hi)),
        zero_point(_mm_set1_epi16(static_cast<int16_t>(store.zero_point))),
        lo(_mm_set1_epi8(static_cast<int8_t>(store.lo + static_cast<float>(store.zero_point)))),
        with_residual(residual.x != nullptr),
        residual_zero_point(_mm256_set1_epi32(residual.zero_point)),
        residual_multiplier(_mm256_set1_ps(residual.multiplier)) {}

  // `residual` holds eight bytes.
  VPU_INLINE __m256i round(__m256i acc, __m256 multiplier, __m128i residual) const {
    __m256 f = _mm256_mul_ps(_mm256_cvtepi32_ps(acc), multiplier);
    if (with_residual) {
      const __m256i r = _mm256_sub_epi32(_mm256_cvtepi8_epi32(residual), residual_zero_point);
      f = _mm256_add_ps(f, _mm256_mul_ps(_mm256_cvtepi32_ps(r), residual_multiplier));
    }
    return _mm256_cvtps_epi32(_mm256_min_ps(f, hi));
  }

  VPU_INLINE __m128i pack(__m256i rounded) const {
    const __m128i y =
        _mm_packs_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
    return _mm_adds_epi16(y, zero_point);
  }

  // Sixteen accumulators become sixteen bytes.
  VPU_INLINE __m128i operator()(__m256i a, __m256i b, __m256 ma, __m256 mb,
                                __m128i residual) const {
    const __m128i y = _mm_packs_epi16(pack(round(a, ma, residual)),
                                      pack(round(b, mb, _mm_srli_si128(residual, 8))));
    return _mm_max_epi8(y, lo);
  }
};

// ---- Matrix product: kRows x kColumns.

#define VPU_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)

struct Epilogue {
  const Gemm& g;
  Requantize requantize;
  __m256 multiplier[2];

  explicit VPU_INLINE Epilogue(const Gemm& gemm)
      : g(gemm),
        requantize(gemm.store, gemm.residual),
        multiplier{_mm256_loadu_ps(gemm.multiplier), _mm256_loadu_ps(gemm.multiplier + 8)} {}

  VPU_INLINE void row(int i, __m256i a, __m256i b) const {
    const int64_t row = y_row(g, i);
    if (row < 0) return;
    alignas(16) int8_t bytes[kColumns];
    const bool whole = g.columns == kColumns;
    __m128i r = _mm_setzero_si128();
    if (g.residual.x) {
      const int8_t* x = g.residual.x + row * g.residual.stride;
      if (!whole) x = static_cast<const int8_t*>(memcpy(bytes, x, g.columns));
      r = load16(x);
    }
    const __m128i y = requantize(a, b, multiplier[0], multiplier[1], r);
    int8_t* to = g.y + row * g.y_stride;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(whole ? to : bytes), y);
    if (!whole) memcpy(to, bytes, g.columns);
  }
};

template <int rows>
__attribute__((noinline)) void gemm_rows(const Gemm& g) {
  const __m256i bias0 = load32(g.bias);
  const __m256i bias1 = load32(g.bias + 8);
#define VPU_BIAS(i) __m256i a##i = bias0, b##i = bias1;
  VPU_ROWS(VPU_BIAS)
#undef VPU_BIAS
  if (g.row_bias) {
#define VPU_ROW_BIAS(i)                                        \
  if constexpr (i < rows) {                                    \
    const __m256i row_bias = _mm256_set1_epi32(g.row_bias[i]); \
    a##i = _mm256_add_epi32(a##i, row_bias);                   \
    b##i = _mm256_add_epi32(b##i, row_bias);                   \
  }
    VPU_ROWS(VPU_ROW_BIAS)
#undef VPU_ROW_BIAS
  }
  const int8_t* w = g.b;
  const ptrdiff_t stride = g.a_stride;
  const int32_t* end = g.runs + g.run_count;
  for (const int32_t* run = g.runs; run < end; ++run) {
    const std::byte* x = g.a + *run;
    for (int64_t k = 0; k < g.k; k += 2, x += 4, w += 2 * kColumns) {
      const __m256i w0 = _mm256_cvtepi8_epi16(load16(w));
      const __m256i w1 = _mm256_cvtepi8_epi16(load16(w + 16));
#define VPU_STEP(i)                                          \
  if constexpr (i < rows) {                                  \
    int32_t x2;                                              \
    memcpy(&x2, x + i * stride, sizeof(x2));                 \
    const __m256i v = _mm256_set1_epi32(x2);                 \
    a##i = _mm256_add_epi32(a##i, _mm256_madd_epi16(v, w0)); \
    b##i = _mm256_add_epi32(b##i, _mm256_madd_epi16(v, w1)); \
  }
      VPU_ROWS(VPU_STEP)
#undef VPU_STEP
    }
  }
  const Epilogue epilogue(g);
#define VPU_STORE(i) \
  if constexpr (i < rows) epilogue.row(i, a##i, b##i);
  VPU_ROWS(VPU_STORE)
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

// ---- Depthwise: two taps of 16 channels, interleaved, are the pairs vpmaddwd wants.

VPU_INLINE void multiply_add(__m256i& acc, __m128i pairs, const int8_t* weight) {
  const __m256i w = _mm256_cvtepi8_epi16(load16(weight));
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_cvtepi8_epi16(pairs), w));
}

// A block that is not whole passes through `bytes`.
VPU_INLINE __m128i load_block(const int8_t* x, int64_t n, int8_t* bytes) {
  return load16(n == 16 ? x : static_cast<const int8_t*>(memcpy(bytes, x, n)));
}

void depthwise(const Depthwise& d) {
  const Requantize requantize(d.store, d.residual);
  alignas(16) int8_t bytes[16] = {};
  for (int64_t c = 0; c < d.channels; c += 16) {
    const int64_t n = smaller(16, d.channels - c);
    const int8_t* weight = d.weight + c * d.tap_count;
    const __m256 m0 = _mm256_loadu_ps(d.multiplier + c);
    const __m256 m1 = _mm256_loadu_ps(d.multiplier + c + 8);
    for (int64_t p = 0; p < d.pixels; ++p) {
      const ptrdiff_t at = p * d.x_stride + c;
      __m256i a = load32(d.bias + c);
      __m256i b = load32(d.bias + c + 8);
      for (int t = 0; t < d.tap_count; t += 2) {
        const __m128i x0 = load_block(d.taps[t] + at, n, bytes);
        const __m128i x1 = load_block(d.taps[t + 1] + at, n, bytes);
        multiply_add(a, _mm_unpacklo_epi8(x0, x1), weight + 16 * t);
        multiply_add(b, _mm_unpackhi_epi8(x0, x1), weight + 16 * t + 16);
      }
      __m128i r = _mm_setzero_si128();
      if (d.residual.x) r = load_block(d.residual.x + p * d.residual.stride + c, n, bytes);
      const __m128i y = requantize(a, b, m0, m1, r);
      int8_t* to = d.y + p * d.y_stride + c;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(n == 16 ? to : bytes), y);
      if (n != 16) memcpy(to, bytes, n);
    }
  }
}

// A product is the same every time, which the compiler must not notice.
VPU_INLINE void multiply_add(__m256i& acc, __m256i& x) {
  hide(x);
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(x, x));
}

int64_t peak(int64_t iterations) {
  __m256i x = _mm256_setzero_si256();
#define VPU_ZERO(i) __m256i a##i = x, b##i = x;
  VPU_ROWS(VPU_ZERO)
#undef VPU_ZERO
  for (int64_t i = 0; i < iterations; ++i) {
#define VPU_STEP(i)      \
  multiply_add(a##i, x); \
  multiply_add(b##i, x);
    VPU_ROWS(VPU_STEP)
#undef VPU_STEP
  }
#define VPU_USE(i) hide(a##i), hide(b##i);
  VPU_ROWS(VPU_USE)
#undef VPU_USE
  return iterations * kRows * kColumns * 2;
}

constexpr Isa make() {
  Isa isa = plain_isa("avx2");
  isa.peak = peak;
  isa.gemm_tile = {kRows, kColumns, 2, 2, 2, 0};
  isa.pack_a = pack_a;
  isa.pack_b = pack_b_plain<kColumns, 2, 2>;
  isa.gemm = gemm;
  isa.depthwise_tile = {16, 2, nullptr, 0, false};
  isa.depthwise = depthwise;
  return isa;
}

}  // namespace

extern const Isa avx2_isa;
const Isa avx2_isa = make();

}  // namespace vpu::isa
