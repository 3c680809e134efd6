// What an instruction set provides: one Isa of plain function pointers on plain pointers, one file
// per set. All sets give the same bits for the same arguments.
//
// The files of the sets are compiled for CPUs that may not be the one running, so nothing they
// share may become a symbol the linker merges: this header has declarations only, and whatever the
// sets share in code (portable_inl.h) lives in anonymous namespaces. They use no std:: templates.
//
// Pointers need no alignment beyond that of their type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vpu::isa {

// How a float becomes an int8: clamp(rne(f) + zero_point, min, max). Clamping first, in float, is
// the same and cannot overflow:
//   f = f > lo ? f : lo  (so NaN gives lo);  f = f < hi ? f : hi;  int8(rne(f) + zero_point)
// with lo = min - zero_point, hi = max - zero_point.
struct Store {
  float lo;
  float hi;
  int32_t zero_point;
};

// A residual operand: adds float(x - zero_point) * multiplier before the store. `x` may be null.
struct Residual {
  const int8_t* x;
  ptrdiff_t stride;  // from one row (or pixel) to the next
  int32_t zero_point;
  float multiplier;
};

// ---- Matrix product: convolution, linear, mat_mul.
//
// An element of A is `a_bytes` wide and holds x + a_offset, as pack_a makes it. A row of A is
// `run_count` runs of k elements, each at an offset from where the row is: one run for a plain
// matrix; for a convolution, the row of an image under each row of the filter, where the next pixel
// overlaps this one. B is packed by pack_b in panels of nr columns, each [run][k / kr][nr][kr]. k
// is padded to a multiple of k_step (a multiple of kr); what pads B is zero, so what pads A does
// not matter. Rows of A are readable up to a multiple of mr.
struct GemmTile {
  int mr;
  int nr;
  int kr;
  int k_step;
  int a_bytes;
  int a_offset;
};

// acc = bias[n] + row_bias[m] + sum A[m, k] * B[k, n]        (modulo 2^32)
// y[m, n] = store(float(acc) * multiplier[n] + residual[m, n])
struct Gemm {
  const std::byte* a;
  ptrdiff_t a_stride;   // bytes
  const int32_t* runs;  // the offset of each, in bytes
  int64_t run_count;
  int64_t k;  // of one run
  const int8_t* b;
  const int32_t* row_bias;  // may be null
  const int32_t* bias;      // as many as the panels have columns
  const float* multiplier;  // the same
  Residual residual;
  int8_t* y;
  ptrdiff_t y_stride;
  const int32_t* y_rows;  // which row of y, and of the residual, row m is; negative: none.
                          // Null: row m.
  int64_t rows;
  int64_t columns;
  Store store;
  bool fits_int;  // what is stored rounds to an int32, whatever A is
};

// ---- Depthwise convolution.
//
// Weights are packed [channels / block][taps / tap_step][block][tap_step]; within a block, position
// i holds channel order[i] (null: i). bias and multiplier lie in the same order. Padded with zeros;
// or, if `twice`, where the last block is at most half full, channel i also stands for block / 2 +
// i. The sum is of (x + offset) * weight. Taps go row by row; or column by column, each padded to a
// multiple of tap_step, where that makes them no more.
struct DepthwiseTile {
  int block;
  int tap_step;
  const uint8_t* order;
  int offset;
  bool twice;
};

struct Depthwise {
  const int8_t* const* taps;  // where each tap of the first pixel is
  int tap_count;              // a multiple of tap_step
  ptrdiff_t x_stride;         // from a tap of one pixel to the same tap of the next
  int64_t pixels;
  int column_step;  // Not 0: the taps are 3 columns of 3, and the next pixel's are so many further
  int64_t channels;
  const int8_t* weight;
  const int32_t* bias;
  const float* multiplier;
  Residual residual;
  int8_t* y;
  ptrdiff_t y_stride;
  Store store;
};

// ---- Element by element. A step is 1 (a vector) or 0 (one value for all).
struct Operand {
  const int8_t* x;
  int step;
  int32_t zero_point;
  float multiplier;
};

// ---- Pooling: the cells x + i * row_stride + j * column_stride, each n channels.
struct Window {
  const int8_t* x;
  int64_t rows;
  ptrdiff_t row_stride;
  int64_t columns;
  ptrdiff_t column_stride;
};

// ---- What is to be known of a channel's weights before they are packed.
struct WeightSums {
  int64_t sum;
  int64_t magnitude;  // the sum of the absolute values
  int8_t least;       // or 0
};

struct Isa {
  const char* name;

  // The set's multiply instruction alone, on registers: the speed no kernel can exceed. Answers the
  // multiply-accumulates done. Null: not known.
  int64_t (*peak)(int64_t iterations);

  GemmTile gemm_tile;
  // `rows` runs of n elements; the source may overlap or repeat (src_stride 0).
  void (*pack_a)(std::byte* dst, ptrdiff_t dst_stride, const int8_t* src, ptrdiff_t src_stride,
                 int64_t rows, int64_t n);
  // One panel: B[i, j] = b[i * k_stride + j * n_stride] for k x n elements, n at most nr.
  void (*pack_b)(int8_t* panel, const int8_t* b, ptrdiff_t k_stride, ptrdiff_t n_stride, int64_t k,
                 int64_t n);
  // Any number of rows, and of panels.
  void (*gemm)(const Gemm& args);

  WeightSums (*sum_weights)(const int8_t* weights, int64_t n);

  DepthwiseTile depthwise_tile;
  void (*depthwise)(const Depthwise& args);

  // y = store(x * inv_scale)
  void (*quantize)(const float* x, int8_t* y, int64_t n, float inv_scale, const Store& store);
  // y = float(x - zero_point) * scale
  void (*dequantize)(const int8_t* x, float* y, int64_t n, int32_t zero_point, float scale);
  // y = table[x + 128]
  void (*lookup)(const int8_t* x, int8_t* y, int64_t n, const int8_t* table);
  // y = store(float(a - zp_a) * a.multiplier + float(b - zp_b) * b.multiplier)
  void (*add)(const Operand& a, const Operand& b, int8_t* y, int64_t n, const Store& store);
  // y = store(float((a - zp_a) * (b - zp_b)) * a.multiplier)
  void (*mul)(const Operand& a, const Operand& b, int8_t* y, int64_t n, const Store& store);
  // y[i] = store(float(x[i] - zero_point) * multiplier[i * step] + offset[i * step])
  void (*affine)(const int8_t* x, int8_t* y, int64_t n, int32_t zero_point, const float* multiplier,
                 const float* offset, int step, const Store& store);
  // y[c] = max over the cells of x[c]
  void (*max)(const Window& window, int8_t* y, int64_t n);
  // sums[c] += sum over the cells of x[c]
  void (*sum)(const Window& window, int32_t* sums, int64_t n);
  // y = store(float(sums - bias) / divisor * multiplier)
  void (*scale)(const int32_t* sums, int8_t* y, int64_t n, int32_t bias, float divisor,
                float multiplier, const Store& store);
  // e[i] = exponentials[max(x) - x[i]];  y[i] = store(float(e[i]) * (multiplier / float(sum e)))
  void (*softmax)(const int8_t* x, int8_t* y, int64_t n, const int32_t* exponentials,
                  float multiplier, const Store& store);
  // y[j, i] = x[i, j] for rows x columns bytes
  void (*transpose)(const int8_t* x, ptrdiff_t x_stride, int8_t* y, ptrdiff_t y_stride,
                    int64_t rows, int64_t columns);
};

}  // namespace vpu::isa
