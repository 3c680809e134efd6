// The micro-kernels as plain loops, which each set's file compiles for its own set. A set overrides
// those that it does better by hand.
//
// Everything here is in an anonymous namespace and uses no std:: templates: see micro_kernels.h.
#pragma once

#include <string.h>

#include "isa/micro_kernels.h"

namespace vpu::isa {
namespace {

inline int32_t as_int(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

// The float32 whose unit in the last place is one: adding it to |f| < 2^22 rounds f to an integer,
// half to even, and leaves that integer in the low bits. Vectorizes anywhere, unlike lrintf.
constexpr float kRound = 12582912.0f;  // 3 * 2^22
constexpr int32_t kRoundBits = 0x4B400000;

inline int8_t store_one(float f, const Store& store) {
  f = f > store.lo ? f : store.lo;
  f = f < store.hi ? f : store.hi;
  return static_cast<int8_t>(as_int(f + kRound) - (kRoundBits - store.zero_point));
}

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// ---- Matrix product.

// The row of y that row i is; negative: none.
inline int64_t y_row(const Gemm& g, int64_t i) { return g.y_rows != nullptr ? g.y_rows[i] : i; }

// The panel of g that starts at column n.
template <int nr>
inline Gemm panel_of(const Gemm& g, int64_t n) {
  Gemm panel = g;
  panel.b += n * g.run_count * g.k;
  panel.bias += n;
  panel.multiplier += n;
  if (g.residual.x != nullptr) panel.residual.x += n;
  panel.y += n;
  panel.columns = smaller(nr, g.columns - n);
  return panel;
}

// Rows begin .. end of g.
inline Gemm rows_of(const Gemm& g, int64_t begin, int64_t end) {
  Gemm part = g;
  part.a += begin * g.a_stride;
  if (g.row_bias != nullptr) part.row_bias += begin;
  if (g.y_rows != nullptr) {
    part.y_rows += begin;
  } else {
    if (g.residual.x != nullptr) part.residual.x += begin * g.residual.stride;
    part.y += begin * g.y_stride;
  }
  part.rows = end - begin;
  return part;
}

// Calls tile(Gemm) for parts of at most mr rows, as even as can be, and nr columns.
template <int mr, int nr, class F>
inline void for_each_tile(const Gemm& g, F tile) {
  const int64_t tiles = (g.rows + mr - 1) / mr;
  for (int64_t n = 0; n < g.columns; n += nr) {
    const Gemm panel = panel_of<nr>(g, n);
    for (int64_t t = 0; t < tiles; ++t) {
      tile(rows_of(panel, g.rows * t / tiles, g.rows * (t + 1) / tiles));
    }
  }
}

// A as it is.
inline void pack_a_plain(std::byte* dst, ptrdiff_t dst_stride, const int8_t* src,
                         ptrdiff_t src_stride, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) memcpy(dst + r * dst_stride, src + r * src_stride, n);
}

template <int nr, int kr, int k_step>
void pack_b_plain(int8_t* panel, const int8_t* b, ptrdiff_t k_stride, ptrdiff_t n_stride, int64_t k,
                  int64_t n) {
  const int64_t whole = k / kr * kr;
  const int64_t padded = (k + k_step - 1) / k_step * k_step;
  if (n < nr || whole < padded) memset(panel, 0, padded * nr);
  for (int64_t i = 0; i < whole; i += kr) {
    const int8_t* from = b + i * k_stride;
    int8_t* to = panel + i * nr;
    if (k_stride == 1) {  // a column of weights lies together
      for (int64_t j = 0; j < n; ++j) memcpy(to + j * kr, from + j * n_stride, kr);
    } else {
      for (int64_t j = 0; j < n; ++j) {
        for (int r = 0; r < kr; ++r) to[j * kr + r] = from[j * n_stride + r * k_stride];
      }
    }
  }
  for (int64_t i = whole; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      panel[whole * nr + j * kr + (i - whole)] = b[i * k_stride + j * n_stride];
    }
  }
}

WeightSums sum_weights_plain(const int8_t* weights, int64_t n) {
  WeightSums sums{};
  for (constexpr int64_t kBlock = 4096; n > 0; weights += kBlock, n -= kBlock) {
    int32_t sum = 0;
    int32_t magnitude = 0;
    int8_t least = sums.least;
    for (int64_t i = 0; i < smaller(n, kBlock); ++i) {
      const int8_t w = weights[i];
      sum += w;
      magnitude += w < 0 ? -w : w;
      least = w < least ? w : least;
    }
    sums = {sums.sum + sum, sums.magnitude + magnitude, least};
  }
  return sums;
}

void quantize_plain(const float* x, int8_t* y, int64_t n, float inv_scale, const Store& args) {
  const Store store = args;
  for (int64_t i = 0; i < n; ++i) y[i] = store_one(x[i] * inv_scale, store);
}

void dequantize_plain(const int8_t* x, float* y, int64_t n, int32_t zero_point, float scale) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i] - zero_point) * scale;
}

void lookup_plain(const int8_t* x, int8_t* y, int64_t n, const int8_t* table) {
  for (int64_t i = 0; i < n; ++i) y[i] = table[x[i] + 128];
}

// The loops of the binary operations, with their steps known to the compiler.
template <class F>
inline void binary(const Operand& a, const Operand& b, int8_t* y, int64_t n, const Store& args,
                   F f) {
  const Store store = args;
  const int8_t* pa = a.x;
  const int8_t* pb = b.x;
  if (a.step == 0 && b.step == 0) {
    memset(y, store_one(f(*pa, *pb), store), n);
  } else if (a.step == 0) {
    const int8_t va = *pa;
    for (int64_t i = 0; i < n; ++i) y[i] = store_one(f(va, pb[i]), store);
  } else if (b.step == 0) {
    const int8_t vb = *pb;
    for (int64_t i = 0; i < n; ++i) y[i] = store_one(f(pa[i], vb), store);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = store_one(f(pa[i], pb[i]), store);
  }
}

void add_plain(const Operand& a, const Operand& b, int8_t* y, int64_t n, const Store& store) {
  binary(a, b, y, n, store,
         [za = a.zero_point, zb = b.zero_point, ma = a.multiplier, mb = b.multiplier](int8_t va,
                                                                                      int8_t vb) {
           return static_cast<float>(va - za) * ma + static_cast<float>(vb - zb) * mb;
         });
}

void mul_plain(const Operand& a, const Operand& b, int8_t* y, int64_t n, const Store& store) {
  binary(a, b, y, n, store,
         [za = a.zero_point, zb = b.zero_point, m = a.multiplier](int8_t va, int8_t vb) {
           return static_cast<float>((va - za) * (vb - zb)) * m;
         });
}

void affine_plain(const int8_t* x, int8_t* y, int64_t n, int32_t zero_point,
                  const float* multiplier, const float* offset, int step, const Store& args) {
  const Store store = args;
  if (step == 0) {
    const float m = *multiplier;
    const float b = *offset;
    for (int64_t i = 0; i < n; ++i) {
      y[i] = store_one(static_cast<float>(x[i] - zero_point) * m + b, store);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      y[i] = store_one(static_cast<float>(x[i] - zero_point) * multiplier[i] + offset[i], store);
    }
  }
}

// Channels of a window that are reduced together, in registers where the set has them.
constexpr int64_t kWindowBlock = 64;

template <class F>
inline void for_each_cell(const Window& window, F f) {
  for (int64_t i = 0; i < window.rows; ++i) {
    const int8_t* cell = window.x + i * window.row_stride;
    for (int64_t j = 0; j < window.columns; ++j, cell += window.column_stride) f(cell);
  }
}

inline void max_block(const Window& window, int64_t c, int8_t* y, int64_t n) {
  int8_t most[kWindowBlock];
  memset(most, -128, sizeof(most));
  if (n == kWindowBlock) {
    for_each_cell(window, [&](const int8_t* x) {
      for (int64_t i = 0; i < kWindowBlock; ++i) most[i] = x[c + i] > most[i] ? x[c + i] : most[i];
    });
  } else {
    for_each_cell(window, [&](const int8_t* x) {
      for (int64_t i = 0; i < n; ++i) most[i] = x[c + i] > most[i] ? x[c + i] : most[i];
    });
  }
  memcpy(y + c, most, n);
}

void max_plain(const Window& window, int8_t* y, int64_t n) {
  for (int64_t c = 0; c < n; c += kWindowBlock) {
    max_block(window, c, y, smaller(kWindowBlock, n - c));
  }
}

inline void sum_block(const Window& window, int64_t c, int32_t* sums, int64_t n) {
  int32_t sum[kWindowBlock] = {};
  if (n == kWindowBlock) {
    for_each_cell(window, [&](const int8_t* x) {
      for (int64_t i = 0; i < kWindowBlock; ++i) sum[i] += x[c + i];
    });
  } else {
    for_each_cell(window, [&](const int8_t* x) {
      for (int64_t i = 0; i < n; ++i) sum[i] += x[c + i];
    });
  }
  for (int64_t i = 0; i < n; ++i) sums[c + i] += sum[i];
}

void sum_plain(const Window& window, int32_t* sums, int64_t n) {
  if (n == 1 && window.column_stride == 1) {  // the cells of a row lie together
    for (int64_t i = 0; i < window.rows; ++i) {
      const int8_t* x = window.x + i * window.row_stride;
      int32_t sum = 0;
      for (int64_t j = 0; j < window.columns; ++j) sum += x[j];
      *sums += sum;
    }
    return;
  }
  for (int64_t c = 0; c < n; c += kWindowBlock) {
    sum_block(window, c, sums, smaller(kWindowBlock, n - c));
  }
}

void scale_plain(const int32_t* sums, int8_t* y, int64_t n, int32_t bias, float divisor,
                 float multiplier, const Store& args) {
  const Store store = args;
  for (int64_t i = 0; i < n; ++i) {
    y[i] = store_one(static_cast<float>(sums[i] - bias) / divisor * multiplier, store);
  }
}

// An output depends on its own code alone once a row's maximum and sum are known: for a row that is
// not short, it pays to compute them for all codes, in order, and look them up.
template <void (*lookup)(const int8_t*, int8_t*, int64_t, const int8_t*)>
void softmax_plain(const int8_t* x, int8_t* y, int64_t n, const int32_t* exponentials,
                   float multiplier, const Store& args) {
  int8_t most = -128;
  for (int64_t i = 0; i < n; ++i) most = x[i] > most ? x[i] : most;
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    ptrdiff_t code = x[i];
    asm("" : "+r"(code));  // vectorized, without a fast gather, this is slower
    sum += exponentials[most - code];
  }
  const float scale = multiplier / static_cast<float>(sum);
  const Store store = args;
  if (n < 64) {
    for (int64_t i = 0; i < n; ++i) {
      y[i] = store_one(static_cast<float>(exponentials[most - x[i]]) * scale, store);
    }
    return;
  }
  int8_t by_distance[256];  // from the maximum
  for (int d = 0; d < 256; ++d) {
    by_distance[d] = store_one(static_cast<float>(exponentials[d]) * scale, store);
  }
  int8_t table[256] = {};
  const int last = most + 128;  // the place of the maximum in the table
  for (int i = 0; i <= last; ++i) table[i] = by_distance[last - i];
  lookup(x, y, n, table);
}

// 8 x 8 bytes, by swapping the off-diagonal 4 x 4, 2 x 2 and 1 x 1 blocks of 64-bit rows.
inline void transpose_8x8(const int8_t* x, ptrdiff_t x_stride, int8_t* y, ptrdiff_t y_stride) {
  uint64_t row[8];
  for (int i = 0; i < 8; ++i) memcpy(&row[i], x + i * x_stride, 8);
  const uint64_t low_half[3] = {0x00000000FFFFFFFFu, 0x0000FFFF0000FFFFu, 0x00FF00FF00FF00FFu};
  for (int step = 4, level = 0; step > 0; step /= 2, ++level) {
    for (int i = 0; i < 8; ++i) {
      if (i & step) continue;
      const uint64_t swap = ((row[i] >> (8 * step)) ^ row[i + step]) & low_half[level];
      row[i + step] ^= swap;
      row[i] ^= swap << (8 * step);
    }
  }
  for (int i = 0; i < 8; ++i) memcpy(y + i * y_stride, &row[i], 8);
}

// A few long rows become many short ones, and back: images with their 2, 3 or 4 channels.
template <int rows>
inline void interleave(const int8_t* x, ptrdiff_t x_stride, int8_t* y, int64_t columns) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int i = 0; i < rows; ++i) y[j * rows + i] = x[i * x_stride + j];
  }
}

template <int columns>
inline void deinterleave(const int8_t* x, int8_t* y, ptrdiff_t y_stride, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) y[j * y_stride + i] = x[i * columns + j];
  }
}

void transpose_plain(const int8_t* x, ptrdiff_t x_stride, int8_t* y, ptrdiff_t y_stride,
                     int64_t rows, int64_t columns) {
  if (rows == y_stride) {
    if (rows == 1) return static_cast<void>(memcpy(y, x, columns));
    if (rows == 2) return interleave<2>(x, x_stride, y, columns);
    if (rows == 3) return interleave<3>(x, x_stride, y, columns);
    if (rows == 4) return interleave<4>(x, x_stride, y, columns);
  }
  if (columns == x_stride) {
    if (columns == 1) return static_cast<void>(memcpy(y, x, rows));
    if (columns == 2) return deinterleave<2>(x, y, y_stride, rows);
    if (columns == 3) return deinterleave<3>(x, y, y_stride, rows);
    if (columns == 4) return deinterleave<4>(x, y, y_stride, rows);
  }
  const int64_t whole_rows = rows & ~int64_t{7};
  const int64_t whole_columns = columns & ~int64_t{7};
  for (int64_t i = 0; i < whole_rows; i += 8) {
    for (int64_t j = 0; j < whole_columns; j += 8) {
      transpose_8x8(x + i * x_stride + j, x_stride, y + j * y_stride + i, y_stride);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) {
      y[j * y_stride + i] = x[i * x_stride + j];
    }
  }
}

// The part of an Isa that is element by element or along a window, of the loops above.
constexpr Isa plain_isa(const char* name) {
  Isa isa{};
  isa.name = name;
  isa.sum_weights = sum_weights_plain;
  isa.quantize = quantize_plain;
  isa.dequantize = dequantize_plain;
  isa.lookup = lookup_plain;
  isa.add = add_plain;
  isa.mul = mul_plain;
  isa.affine = affine_plain;
  isa.max = max_plain;
  isa.sum = sum_plain;
  isa.scale = scale_plain;
  isa.softmax = softmax_plain<lookup_plain>;
  isa.transpose = transpose_plain;
  return isa;
}

}  // namespace
}  // namespace vpu::isa
