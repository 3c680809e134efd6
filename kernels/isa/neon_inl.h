// What the NEON sets share: all but the inner loop of the matrix product. Both have sdot, which
// multiplies signed bytes, so A is read as it is.
#pragma once

#include <arm_neon.h>

#include "isa/compiler.h"
#include "isa/portable_inl.h"

namespace vpu::isa {
namespace {

// ---- From int32 sums to bytes, 16 at a time.

// Sixteen sums, or floats, of a row of outputs.
struct Sums {
  int32x4_t part[4];
};
struct Floats {
  float32x4_t part[4];
};

// Conversions and narrowing saturate, so that bytes are all that need be clamped.
struct Narrow {
  int16x8_t zero_point;
  int8x16_t lo;
  int8x16_t hi;

  explicit VPU_INLINE Narrow(const Store& store)
      : zero_point(vdupq_n_s16(static_cast<int16_t>(store.zero_point))),
        lo(vdupq_n_s8(static_cast<int8_t>(store.lo + static_cast<float>(store.zero_point)))),
        hi(vdupq_n_s8(static_cast<int8_t>(store.hi + static_cast<float>(store.zero_point)))) {}

  VPU_INLINE int16x8_t round(float32x4_t a, float32x4_t b) const {
    const int16x4_t narrow = vqmovn_s32(vcvtnq_s32_f32(a));
    return vqaddq_s16(vqmovn_high_s32(narrow, vcvtnq_s32_f32(b)), zero_point);
  }

  VPU_INLINE int8x16_t operator()(const Floats& f) const {
    const int16x8_t low = round(f.part[0], f.part[1]);
    const int16x8_t high = round(f.part[2], f.part[3]);
    const int8x16_t y = vqmovn_high_s16(vqmovn_s16(low), high);
    return vminq_s8(vmaxq_s8(y, lo), hi);
  }
};

// Sixteen x - zero_point.
VPU_INLINE Floats centered(int8x16_t x, int8x16_t zero_point) {
  const int16x8_t low = vsubl_s8(vget_low_s8(x), vget_low_s8(zero_point));
  const int16x8_t high = vsubl_high_s8(x, zero_point);
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high))}};
}

// Sixteen bytes, or the first n of them.
VPU_INLINE int8x16_t load_first(const int8_t* x, int64_t n) {
  if (n == 16) return vld1q_s8(x);
  int8_t bytes[16] = {};
  return vld1q_s8(static_cast<const int8_t*>(memcpy(bytes, x, n)));
}

VPU_INLINE void store_first(int8_t* y, int64_t n, int8x16_t bytes) {
  if (n == 16) return vst1q_s8(y, bytes);
  int8_t all[16];
  vst1q_s8(all, bytes);
  memcpy(y, all, n);
}

// From sums to what is stored of them.
struct Epilogue {
  Narrow narrow;
  Residual residual;
  int8x16_t residual_zero_point;

  VPU_INLINE Epilogue(const Store& store, const Residual& operand)
      : narrow(store),
        residual(operand),
        residual_zero_point(vdupq_n_s8(static_cast<int8_t>(operand.zero_point))) {}

  // The first n sums; the residual's bytes are at residual.x + at.
  VPU_INLINE void store(const Sums& sums, const float* multiplier, ptrdiff_t at, int8_t* y,
                        int64_t n) const {
    Floats f;
    for (int i = 0; i < 4; ++i) {
      f.part[i] = vmulq_f32(vcvtq_f32_s32(sums.part[i]), vld1q_f32(multiplier + 4 * i));
    }
    if (residual.x != nullptr) {
      const Floats r = centered(load_first(residual.x + at, n), residual_zero_point);
      for (int i = 0; i < 4; ++i) {
        f.part[i] = vaddq_f32(f.part[i], vmulq_n_f32(r.part[i], residual.multiplier));
      }
    }
    store_first(y, n, narrow(f));
  }
};

// ---- Matrix product: tiles of kRows x kColumns, whose sums are 24 of the 32 registers.

constexpr int kRows = 6;
constexpr int kColumns = 16;
constexpr int kStep = 8;

// Calls step(x, w) for every kStep elements: x of the first row, w of a panel's columns. That there
// is at least one such step saves storing the sums before it.
template <class F>
VPU_INLINE void for_each_step(const Gemm& g, F step) {
  const int8_t* w = g.b;
  const int32_t* run = g.runs;
  const int32_t* end = run + g.run_count;
  do {
    const int8_t* x = reinterpret_cast<const int8_t*>(g.a) + *run;
    const int8_t* x_end = x + g.k;
    do {
      step(x, w);
      x += kStep;
      w += kStep * kColumns;
    } while (x < x_end);
  } while (++run < end);
}

// Adds the biases to the products of each row, and stores them. A function of its own, out of the
// way of the loop that needs the registers.
__attribute__((noinline)) void store_rows(const Gemm& g, const Sums* products) {
  const Epilogue epilogue(g.store, g.residual);
  for (int64_t i = 0; i < g.rows; ++i) {
    const int64_t row = y_row(g, i);
    if (row < 0) continue;
    const int32x4_t row_bias = vdupq_n_s32(g.row_bias != nullptr ? g.row_bias[i] : 0);
    Sums sums = products[i];
    for (int j = 0; j < 4; ++j) {
      sums.part[j] = vaddq_s32(sums.part[j], vaddq_s32(vld1q_s32(g.bias + 4 * j), row_bias));
    }
    epilogue.store(sums, g.multiplier, row * g.residual.stride, g.y + row * g.y_stride, g.columns);
  }
}

// ---- Depthwise: four taps of 16 channels, interleaved, are the groups of four bytes sdot wants.

struct Taps {
  int8x16_t part[4];  // four channels each

  VPU_INLINE Taps(int8x16_t x0, int8x16_t x1, int8x16_t x2, int8x16_t x3) {
    const int16x8_t low01 = vreinterpretq_s16_s8(vzip1q_s8(x0, x1));
    const int16x8_t high01 = vreinterpretq_s16_s8(vzip2q_s8(x0, x1));
    const int16x8_t low23 = vreinterpretq_s16_s8(vzip1q_s8(x2, x3));
    const int16x8_t high23 = vreinterpretq_s16_s8(vzip2q_s8(x2, x3));
    part[0] = vreinterpretq_s8_s16(vzip1q_s16(low01, low23));
    part[1] = vreinterpretq_s8_s16(vzip2q_s16(low01, low23));
    part[2] = vreinterpretq_s8_s16(vzip1q_s16(high01, high23));
    part[3] = vreinterpretq_s8_s16(vzip2q_s16(high01, high23));
  }
};

constexpr int kBlock = 16;

// Sixteen channels from channel c on, or the last ones.
template <bool whole>
struct ChannelBlock {
  const Depthwise& d;
  int64_t c;
  int64_t n;
  const int8_t* weight;
  Epilogue epilogue;

  VPU_INLINE ChannelBlock(const Depthwise& args, int64_t channel)
      : d(args),
        c(channel),
        n(whole ? kBlock : args.channels - channel),
        weight(args.weight + channel * args.tap_count),
        epilogue(args.store, args.residual) {}

  VPU_INLINE int8x16_t tap(int t, int64_t pixel) const {
    return load_first(d.taps[t] + pixel * d.x_stride + c, n);
  }

  VPU_INLINE Sums bias() const {
    Sums sums;
    for (int i = 0; i < 4; ++i) sums.part[i] = vld1q_s32(d.bias + c + 4 * i);
    return sums;
  }

  VPU_INLINE void store(int64_t pixel, const Sums& sums) const {
    epilogue.store(sums, d.multiplier + c, pixel * d.residual.stride + c,
                   d.y + pixel * d.y_stride + c, n);
  }
};

VPU_INLINE void multiply_add(Sums& sums, const Taps& x, const int8_t* weight) {
  for (int i = 0; i < 4; ++i) {
    sums.part[i] = vdotq_s32(sums.part[i], x.part[i], vld1q_s8(weight + 16 * i));
  }
}

template <class Block>
VPU_INLINE void depthwise_any(const Block& block) {
  for (int64_t p = 0; p < block.d.pixels; ++p) {
    Sums sums = block.bias();
    const int8_t* weight = block.weight;
    for (int t = 0; t < block.d.tap_count; t += 4, weight += 4 * kBlock) {
      const Taps taps(block.tap(t, p), block.tap(t + 1, p), block.tap(t + 2, p),
                      block.tap(t + 3, p));
      multiply_add(sums, taps, weight);
    }
    block.store(p, sums);
  }
}

// Three columns of three taps. Columns that a pixel shares with the next are interleaved once.
template <int step, class Block>
VPU_INLINE void depthwise_3x3(const Block& block) {
  const auto column = [&](int first_tap, int64_t p) VPU_INLINE_LAMBDA {
    const int8x16_t last = block.tap(first_tap + 2, p);
    return Taps(block.tap(first_tap, p), block.tap(first_tap + 1, p), last, last);
  };
  Taps left = column(0, 0);
  Taps middle = column(4, 0);
  for (int64_t p = 0;;) {
    const Taps right = column(8, p);
    Sums sums = block.bias();
    multiply_add(sums, left, block.weight);
    multiply_add(sums, middle, block.weight + 4 * kBlock);
    multiply_add(sums, right, block.weight + 8 * kBlock);
    block.store(p, sums);
    if (++p >= block.d.pixels) break;
    left = step == 1 ? middle : right;
    middle = step == 1 ? right : column(4, p);
  }
}

template <bool whole>
void depthwise_block(const Depthwise& d, int64_t c) {
  const ChannelBlock<whole> block(d, c);
  if (d.column_step == 1) return depthwise_3x3<1>(block);
  if (d.column_step == 2) return depthwise_3x3<2>(block);
  depthwise_any(block);
}

void depthwise(const Depthwise& d) {
  int64_t c = 0;
  for (; c + kBlock <= d.channels; c += kBlock) depthwise_block<true>(d, c);
  if (c < d.channels) depthwise_block<false>(d, c);
}

// ---- Element by element.

// The table is sixteen registers, of which an instruction sees four. With its upper bits changed,
// an index of another quarter is 64 or more, which leaves what was found there.
void lookup(const int8_t* x, int8_t* y, int64_t n, const int8_t* table) {
  const int8x16x4_t first = vld1q_s8_x4(table);
  const int8x16x4_t second = vld1q_s8_x4(table + 64);
  const int8x16x4_t third = vld1q_s8_x4(table + 128);
  const int8x16x4_t fourth = vld1q_s8_x4(table + 192);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const uint8x16_t at = vreinterpretq_u8_s8(vld1q_s8(x + i));
    int8x16_t found = vqtbl4q_s8(first, veorq_u8(at, vdupq_n_u8(0x80)));
    found = vqtbx4q_s8(found, second, veorq_u8(at, vdupq_n_u8(0xC0)));
    found = vqtbx4q_s8(found, third, at);
    found = vqtbx4q_s8(found, fourth, veorq_u8(at, vdupq_n_u8(0x40)));
    vst1q_s8(y + i, found);
  }
  lookup_plain(x + i, y + i, n - i, table);
}

// `kr` elements of a column of B lie together.
template <int kr>
constexpr Isa neon_isa(const char* name, void (*gemm)(const Gemm&)) {
  Isa isa = plain_isa(name);
  isa.gemm_tile = {kRows, kColumns, kr, kStep, 1, 0};
  isa.pack_a = pack_a_plain;
  isa.pack_b = pack_b_plain<kColumns, kr, kStep>;
  isa.gemm = gemm;
  isa.depthwise_tile = {kBlock, 4, nullptr, 0, false};
  isa.depthwise = depthwise;
  isa.lookup = lookup;
  isa.softmax = softmax_plain<lookup>;
  return isa;
}

}  // namespace
}  // namespace vpu::isa
