// The loops around the matrix micro-kernel. Shared by Conv2d, Linear and MatMul.
#pragma once

#include <algorithm>
#include <cstdint>

#include "isa/micro_kernels.h"
#include "vpu/kernel.h"

namespace vpu {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How a matrix B of runs * k rows is cut into an instruction set's panels.
struct Panels {
  const isa::Isa* isa;
  int64_t runs;
  int64_t k;  // of a run
  int64_t columns;
  int64_t padded_run;
  int64_t count;

  Panels(const isa::Isa& set, int64_t runs, int64_t k, int64_t columns)
      : isa(&set),
        runs(runs),
        k(k),
        columns(columns),
        padded_run(ceil_div(k, set.gemm_tile.k_step) * set.gemm_tile.k_step),
        count(ceil_div(columns, set.gemm_tile.nr)) {}

  int64_t padded_k() const { return runs * padded_run; }

  int64_t width() const { return isa->gemm_tile.nr; }
  int64_t padded_columns() const { return count * width(); }
  int64_t panel_bytes() const { return padded_k() * width(); }
  int64_t bytes() const { return count * panel_bytes(); }

  // B[i, j] = b[i * k_stride + j * n_stride]
  void pack(const int8_t* b, ptrdiff_t k_stride, ptrdiff_t n_stride, int8_t* packed) const {
    for (int64_t p = 0; p < count; ++p) {
      const int64_t n = p * width();
      for (int64_t r = 0; r < runs; ++r) {
        isa->pack_b(packed + p * panel_bytes() + r * padded_run * width(),
                    b + r * k * k_stride + n * n_stride, k_stride, n_stride, k,
                    std::min(width(), columns - n));
      }
    }
  }

  // Bytes from one packed row of A to the next, where rows are one run. Rows a multiple of 1 KiB
  // apart would compete for the same few sets of the L1 cache.
  ptrdiff_t a_stride() const {
    const auto stride =
        static_cast<ptrdiff_t>(align_up(static_cast<size_t>(padded_k() * isa->gemm_tile.a_bytes)));
    return stride % 1024 == 0 ? stride + static_cast<ptrdiff_t>(kAlignment) : stride;
  }

  // How many rows of A to pack and take through all panels at once: they stay in the L1 cache when
  // the panels together stay in the L2; else enough that B is not read from memory too often.
  int64_t block_rows(int64_t rows) const {
    const int64_t budget = bytes() <= 512 * 1024 ? 32 * 1024 : 256 * 1024;
    const int64_t tile = isa->gemm_tile.mr;
    const int64_t fits = std::max<int64_t>(budget / a_stride() / tile, 1);
    return std::min(fits, ceil_div(rows, tile)) * tile;
  }
};

// Of a row of A that is one run.
inline constexpr int32_t kOneRun[] = {0};

// A block of rows times panels begin .. end. `block` is as of column 0; its columns are not read.
inline void multiply(const Panels& panels, isa::Gemm block, int64_t begin, int64_t end) {
  const int64_t n = begin * panels.width();
  block.b += begin * panels.panel_bytes();
  block.bias += n;
  block.multiplier += n;
  if (block.residual.x != nullptr) block.residual.x += n;
  block.y += n;
  block.columns = std::min(panels.columns, end * panels.width()) - n;
  panels.isa->gemm(block);
}

}  // namespace vpu
