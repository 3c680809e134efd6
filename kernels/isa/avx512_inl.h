// What the sets with AVX-512 VNNI share: requantization, and the kernels that are not matrix
// products.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12's headers leave the masked-off operand of an unmasked intrinsic uninitialized.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>

#include "isa/compiler.h"
#include "isa/portable_inl.h"
#include "isa/vnni_inl.h"

namespace vpu::isa {
namespace {

VPU_INLINE __mmask64 first(int64_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

// ---- Rows of A: bytes, with the sign bit flipped (which adds 128) or not.

template <int flip>
VPU_INLINE void pack64(std::byte* dst, const int8_t* src) {
  const __m512i x = _mm512_loadu_si512(src);
  _mm512_storeu_si512(dst, flip ? _mm512_xor_si512(x, _mm512_set1_epi8(flip)) : x);
}
template <int flip>
VPU_INLINE void pack16(std::byte* dst, const int8_t* src) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), _mm_xor_si128(x, _mm_set1_epi8(flip)));
}

// Runs of at least `width`; the last step overlaps the one before.
template <int64_t width, void (*pack)(std::byte*, const int8_t*)>
void pack_runs(std::byte* dst, ptrdiff_t dst_stride, const int8_t* src, ptrdiff_t src_stride,
               int64_t rows, int64_t n) {
  for (; rows > 0; --rows, dst += dst_stride, src += src_stride) {
    for (int64_t i = 0; i < n - width; i += width) pack(dst + i, src + i);
    pack(dst + n - width, src + n - width);
  }
}

// Runs that lie together, as many as fit a vector when they are spread.
template <int flip>
VPU_TARGET("avx512vbmi2")
void spread_runs(std::byte* dst, ptrdiff_t dst_stride, const int8_t* src, int64_t rows, int64_t n) {
  const int64_t together = 64 / dst_stride;
  uint64_t places = 0;
  for (int64_t i = 0; i < together; ++i) places |= first(n) << (i * dst_stride);
  for (; rows > 0; rows -= together, dst += together * dst_stride, src += together * n) {
    if (rows < together) places &= first(rows * dst_stride);
    const __m512i x = _mm512_maskz_loadu_epi8(first(smaller(rows, together) * n), src);
    const __m512i flipped = _mm512_xor_si512(x, _mm512_set1_epi8(flip));
    _mm512_mask_storeu_epi8(dst, places, _mm512_maskz_expand_epi8(places, flipped));
  }
}

template <int flip>
void pack_a(std::byte* dst, ptrdiff_t dst_stride, const int8_t* src, ptrdiff_t src_stride,
            int64_t rows, int64_t n) {
  if (n >= 64) return pack_runs<64, pack64<flip>>(dst, dst_stride, src, src_stride, rows, n);
  if (n >= 16) return pack_runs<16, pack16<flip>>(dst, dst_stride, src, src_stride, rows, n);
  if (src_stride == n && n < dst_stride && dst_stride <= 32 && VPU_CPU_HAS("avx512vbmi2")) {
    return spread_runs<flip>(dst, dst_stride, src, rows, n);
  }
  const auto mask = static_cast<__mmask16>(first(n));
  for (; rows > 0; --rows, dst += dst_stride, src += src_stride) {
    const __m128i x = _mm_maskz_loadu_epi8(mask, src);
    _mm_mask_storeu_epi8(dst, mask, _mm_xor_si128(x, _mm_set1_epi8(flip)));
  }
}

// ---- Requantization of int32 accumulators. The lower bound needs no float clamp: what is below
// int32 converts to INT_MIN, and packing saturates.

struct Requantize {
  __m512 hi;
  __m512i zero_point;  // int16
  __m512i lo;          // int8
  __m512i most;        // int8: hi, for what fits an int32

  explicit VPU_INLINE Requantize(const Store& store)
      : hi(_mm512_set1_ps(store.hi)),
        zero_point(_mm512_set1_epi16(static_cast<int16_t>(store.zero_point))),
        lo(_mm512_set1_epi8(static_cast<int8_t>(store.lo + static_cast<float>(store.zero_point)))),
        most(_mm512_set1_epi8(
            static_cast<int8_t>(store.hi + static_cast<float>(store.zero_point)))) {}

  VPU_INLINE __m512i round(__m512 f) const { return _mm512_cvtps_epi32(_mm512_min_ps(f, hi)); }

  // Four vectors of rounded values; in each 128-bit lane of the result, 4 bytes of each.
  VPU_INLINE __m512i pack(__m512i a, __m512i b, __m512i c, __m512i d) const {
    const __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(a, b), zero_point);
    const __m512i cd = _mm512_adds_epi16(_mm512_packs_epi32(c, d), zero_point);
    return _mm512_max_epi8(_mm512_packs_epi16(ab, cd), lo);
  }
};

// kRoundBits + x are the bits of kRound + x, as floats count: one conversion less.
struct ResidualVector {
  __m512 zero_point;  // kRound + zero_point
  __m512 multiplier;

  explicit VPU_INLINE ResidualVector(const Residual& residual)
      : zero_point(_mm512_set1_ps(kRound + static_cast<float>(residual.zero_point))),
        multiplier(_mm512_set1_ps(residual.multiplier)) {}

  VPU_INLINE __m512 add(__m512 f, __m128i x) const {
    const __m512i bits = _mm512_add_epi32(_mm512_cvtepi8_epi32(x), _mm512_set1_epi32(kRoundBits));
    const __m512 r = _mm512_sub_ps(_mm512_castsi512_ps(bits), zero_point);
    return _mm512_add_ps(f, _mm512_mul_ps(r, multiplier));
  }
};

// Four-byte groups 0, 4, 8, 12, then 1, 5, 9, 13, and so on: from packed lanes to rows, and back.
VPU_INLINE __m512i transpose_groups(__m512i x) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, x);
}

// ---- Of a matrix product with panels of 32 columns, two vectors of accumulators.

constexpr int kColumns = 32;

// What need not be asked for every row: whether there can be a residual, y_rows, and values that do
// not fit an int32.
template <bool may_add, bool may_map, bool may_overflow>
struct Epilogue {
  const Gemm* g;  // of one panel
  Requantize requantize;
  ResidualVector residual;
  __m512 multiplier[2];
  __mmask32 columns;

  explicit VPU_INLINE Epilogue(const Gemm& gemm)
      : g(&gemm),
        requantize(gemm.store),
        residual(gemm.residual),
        multiplier{_mm512_loadu_ps(gemm.multiplier), _mm512_loadu_ps(gemm.multiplier + 16)},
        columns(static_cast<__mmask32>(first(gemm.columns))) {}

  VPU_INLINE void round(int64_t row, __m512i& a, __m512i& b) const {
    __m512 fa = _mm512_mul_ps(_mm512_cvtepi32_ps(a), multiplier[0]);
    __m512 fb = _mm512_mul_ps(_mm512_cvtepi32_ps(b), multiplier[1]);
    if (may_add && g->residual.x != nullptr && row >= 0) {
      const __m256i x = _mm256_maskz_loadu_epi8(columns, g->residual.x + row * g->residual.stride);
      fa = residual.add(fa, _mm256_castsi256_si128(x));
      fb = residual.add(fb, _mm256_extracti128_si256(x, 1));
    }
    a = may_overflow ? requantize.round(fa) : _mm512_cvtps_epi32(fa);
    b = may_overflow ? requantize.round(fb) : _mm512_cvtps_epi32(fb);
  }

  VPU_INLINE void store(int64_t row, __m256i y) const {
    if (!may_map || row >= 0) _mm256_mask_storeu_epi8(g->y + row * g->y_stride, columns, y);
  }

  // Two rows at a time, the second of which may be one too many.
  template <bool both>
  VPU_INLINE void two_rows(int64_t i, __m512i a0, __m512i b0, __m512i a1, __m512i b1) const {
    const int64_t row0 = may_map ? y_row(*g, i) : i;
    const int64_t row1 = may_map && both ? y_row(*g, i + 1) : i + 1;
    round(row0, a0, b0);
    if constexpr (both) round(row1, a1, b1);
    __m512i y = requantize.pack(a0, b0, a1, b1);
    if constexpr (!may_overflow) y = _mm512_min_epi8(y, requantize.most);
    y = transpose_groups(y);
    store(row0, _mm512_castsi512_si256(y));
    if constexpr (both) store(row1, _mm512_extracti64x4_epi64(y, 1));
  }
};

// ---- Depthwise: four taps of 64 channels become, by byte interleaving, four vectors of 16
// channels x 4 taps. That leaves channel 16 * lane + 4 * vector + i at position
// 16 * vector + 4 * lane + i, until packing the results undoes it.

constexpr uint8_t kOrder[64] = {0,  1,  2,  3,  16, 17, 18, 19, 32, 33, 34, 35, 48, 49, 50, 51,  //
                                4,  5,  6,  7,  20, 21, 22, 23, 36, 37, 38, 39, 52, 53, 54, 55,  //
                                8,  9,  10, 11, 24, 25, 26, 27, 40, 41, 42, 43, 56, 57, 58, 59,  //
                                12, 13, 14, 15, 28, 29, 30, 31, 44, 45, 46, 47, 60, 61, 62, 63};

// Four taps of 64 channels, as a vector of 16 x 4 for each part of the channels.
struct Taps {
  __m512i part0, part1, part2, part3;

  VPU_INLINE Taps(__m512i x0, __m512i x1, __m512i x2, __m512i x3) {
    const __m512i lo01 = _mm512_unpacklo_epi8(x0, x1), hi01 = _mm512_unpackhi_epi8(x0, x1);
    const __m512i lo23 = _mm512_unpacklo_epi8(x2, x3), hi23 = _mm512_unpackhi_epi8(x2, x3);
    part0 = _mm512_unpacklo_epi16(lo01, lo23);
    part1 = _mm512_unpackhi_epi16(lo01, lo23);
    part2 = _mm512_unpacklo_epi16(hi01, hi23);
    part3 = _mm512_unpackhi_epi16(hi01, hi23);
  }
};

// The sums of a pixel's 64 channels.
struct PixelSums {
  __m512i part0, part1, part2, part3;

  explicit VPU_INLINE PixelSums(const int32_t* bias)
      : part0(_mm512_loadu_si512(bias)),
        part1(_mm512_loadu_si512(bias + 16)),
        part2(_mm512_loadu_si512(bias + 32)),
        part3(_mm512_loadu_si512(bias + 48)) {}

  VPU_INLINE void add(const Taps& x, const int8_t* weight) {
    multiply_add(part0, x.part0, _mm512_loadu_si512(weight));
    multiply_add(part1, x.part1, _mm512_loadu_si512(weight + 64));
    multiply_add(part2, x.part2, _mm512_loadu_si512(weight + 128));
    multiply_add(part3, x.part3, _mm512_loadu_si512(weight + 192));
  }
};

// What a vector of taps holds: 64 channels of a pixel; fewer, the last ones; or at most 32, of two
// pixels that follow each other.
enum class Lanes { kWhole, kPart, kTwoPixels };

// The channels from channel c on. A step is a pixel, or two.
template <Lanes lanes>
struct ChannelBlock {
  const Depthwise& d;
  int64_t c;
  __mmask64 mask;  // of a pixel
  Requantize requantize;
  ResidualVector residual;

  static constexpr int kPixels = lanes == Lanes::kTwoPixels ? 2 : 1;

  VPU_INLINE ChannelBlock(const Depthwise& args, int64_t channel)
      : d(args),
        c(channel),
        mask(first(args.channels - channel)),
        requantize(args.store),
        residual(args.residual) {}

  VPU_INLINE int64_t steps() const { return (d.pixels + kPixels - 1) / kPixels; }
  VPU_INLINE int64_t second_pixel(int64_t step) const {
    return smaller(2 * step + 1, d.pixels - 1);
  }

  VPU_INLINE __m512i load(const int8_t* x, ptrdiff_t stride, int64_t step) const {
    x += c;
    if constexpr (lanes == Lanes::kWhole) return _mm512_loadu_si512(x + step * stride);
    if constexpr (lanes == Lanes::kPart) return _mm512_maskz_loadu_epi8(mask, x + step * stride);
    const auto half = static_cast<__mmask32>(mask);
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_maskz_loadu_epi8(half, x + 2 * step * stride)),
        _mm256_maskz_loadu_epi8(half, x + second_pixel(step) * stride), 1);
  }

  VPU_INLINE __m512i tap(int t, int64_t step) const {
    return _mm512_xor_si512(load(d.taps[t], d.x_stride, step), _mm512_set1_epi8(-128));
  }

  VPU_INLINE __m512 scaled(__m512i sum, int part) const {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(d.multiplier + c + 16 * part));
  }

  VPU_INLINE void store(int64_t step, const PixelSums& sums) const {
    __m512 f0 = scaled(sums.part0, 0), f1 = scaled(sums.part1, 1);
    __m512 f2 = scaled(sums.part2, 2), f3 = scaled(sums.part3, 3);
    if (d.residual.x) {
      const __m512i x = transpose_groups(load(d.residual.x, d.residual.stride, step));
      f0 = residual.add(f0, _mm512_castsi512_si128(x));
      f1 = residual.add(f1, _mm512_extracti32x4_epi32(x, 1));
      f2 = residual.add(f2, _mm512_extracti32x4_epi32(x, 2));
      f3 = residual.add(f3, _mm512_extracti32x4_epi32(x, 3));
    }
    const __m512i y = requantize.pack(requantize.round(f0), requantize.round(f1),
                                      requantize.round(f2), requantize.round(f3));
    int8_t* to = d.y + kPixels * step * d.y_stride + c;
    if constexpr (lanes == Lanes::kWhole) {
      _mm512_storeu_si512(to, y);
    } else if constexpr (lanes == Lanes::kPart) {
      _mm512_mask_storeu_epi8(to, mask, y);
    } else {
      const auto half = static_cast<__mmask32>(mask);
      _mm256_mask_storeu_epi8(to, half, _mm512_castsi512_si256(y));
      if (2 * step + 1 < d.pixels) {
        _mm256_mask_storeu_epi8(to + d.y_stride, half, _mm512_extracti64x4_epi64(y, 1));
      }
    }
  }
};

template <Lanes lanes>
__attribute__((noinline)) void depthwise_any(const Depthwise& d, int64_t c) {
  const ChannelBlock<lanes> block(d, c);
  for (int64_t s = 0; s < block.steps(); ++s) {
    PixelSums sums(d.bias + c);
    const int8_t* weight = d.weight + c * d.tap_count;
    for (int t = 0; t < d.tap_count; t += 4, weight += 256) {
      sums.add(Taps(block.tap(t, s), block.tap(t + 1, s), block.tap(t + 2, s), block.tap(t + 3, s)),
               weight);
    }
    block.store(s, sums);
  }
}

// Three columns of three taps. Columns that a step shares with the next, which is `move` columns
// further, are interleaved once.
template <Lanes lanes, int move>
__attribute__((noinline)) void depthwise_3x3(const Depthwise& d, int64_t c) {
  const ChannelBlock<lanes> block(d, c);
  const int8_t* weight = d.weight + c * 12;
  const auto column = [&](int first_tap, int64_t step) VPU_INLINE_LAMBDA {
    const __m512i last = block.tap(first_tap + 2, step);
    return Taps(block.tap(first_tap, step), block.tap(first_tap + 1, step), last, last);
  };
  Taps left = column(0, 0);
  Taps middle = column(4, 0);
  for (int64_t s = 0;;) {
    const Taps right = column(8, s);
    PixelSums sums(d.bias + c);
    sums.add(left, weight);
    sums.add(middle, weight + 256);
    sums.add(right, weight + 512);
    block.store(s, sums);
    if (++s >= block.steps()) break;
    left = move == 1 ? middle : move == 2 ? right : column(0, s);
    middle = move == 1 ? right : column(4, s);
  }
}

template <Lanes lanes>
VPU_INLINE void depthwise_block(const Depthwise& d, int64_t c) {
  constexpr int kPixels = ChannelBlock<lanes>::kPixels;
  if (d.column_step == 1) return depthwise_3x3<lanes, kPixels>(d, c);
  if (d.column_step == 2) return depthwise_3x3<lanes, 2 * kPixels>(d, c);
  depthwise_any<lanes>(d, c);
}

void depthwise(const Depthwise& d) {
  int64_t c = 0;
  for (; d.channels - c >= 64; c += 64) depthwise_block<Lanes::kWhole>(d, c);
  if (d.channels - c > 32) {
    depthwise_block<Lanes::kPart>(d, c);
  } else if (d.channels > c) {
    depthwise_block<Lanes::kTwoPixels>(d, c);
  }
}

// ---- Pooling.

void max(const Window& window, int8_t* y, int64_t n) {
  for (int64_t c = 0; c < n; c += 64) {
    const __mmask64 mask = first(n - c);
    __m512i most = _mm512_set1_epi8(-128);
    for_each_cell(window, [&](const int8_t* x) {
      most = _mm512_max_epi8(most, _mm512_maskz_loadu_epi8(mask, x + c));
    });
    _mm512_mask_storeu_epi8(y + c, mask, most);
  }
}

// ---- Lookup: the table in four registers where the CPU can permute bytes across two of them.

VPU_TARGET("avx512vbmi")
void lookup_vbmi(const int8_t* x, int8_t* y, int64_t n, const int8_t* table) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64);
  const __m512i t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 mask = first(n - i);
    const __m512i v = _mm512_maskz_loadu_epi8(mask, x + i);
    // Negative x indexes the table's first half, by its low seven bits; the others the second.
    const __m512i negative = _mm512_permutex2var_epi8(t0, v, t1);
    const __m512i positive = _mm512_permutex2var_epi8(t2, v, t3);
    const __m512i found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), positive, negative);
    _mm512_mask_storeu_epi8(y + i, mask, found);
  }
}

void lookup(const int8_t* x, int8_t* y, int64_t n, const int8_t* table) {
  if (VPU_CPU_HAS("avx512vbmi")) {
    lookup_vbmi(x, y, n, table);
  } else {
    lookup_plain(x, y, n, table);
  }
}

constexpr Isa avx512_isa(const char* name) {
  Isa isa = plain_isa(name);
  isa.depthwise_tile = {64, 4, kOrder, 128, true};
  isa.depthwise = depthwise;
  isa.max = max;
  isa.lookup = lookup;
  isa.softmax = softmax_plain<lookup>;
  return isa;
}

}  // namespace
}  // namespace vpu::isa
