// Rows that lie one after another, times weights: Linear, and convolutions that see one pixel.
#pragma once

#include <algorithm>

#include "ops/weighted.h"

namespace vpu {

class RowProduct final : public Kernel {
 public:
  RowProduct(const PrepareContext& context, const WeightedOperands& operands, int64_t rows)
      : isa_(context.isa),
        rows_(rows),
        k_(operands.per_channel),
        product_(context, operands, 1, 1, k_,
                 [&](int64_t, std::vector<int8_t>*) { return operands.weight; }),
        block_rows_(product_.panels().block_rows(rows)),
        in_place_(rows_in_place()) {}

  size_t scratch_bytes() const override {
    const int64_t rows = std::min(block_rows_, ceil_div(rows_ - in_place_, tile()) * tile());
    return static_cast<size_t>(rows * product_.panels().a_stride());
  }

  int64_t macs_per_output() const override { return k_; }

  void run(const RunContext& context) const override {
    product_.split(context, scratch_bytes(), ceil_div(rows_, tile()), tile(),
                   rows_ * product_.panels().a_stride(),
                   [&](const Part& part, std::byte* scratch) { run_part(context, part, scratch); });
  }

 private:
  int64_t tile() const { return isa_.gemm_tile.mr; }

  // The micro-kernel reads whole tiles of rows, and beyond a row's end up to a multiple of its
  // step. Where that is within x, and x is as it wants it, rows need not be packed.
  int64_t rows_in_place() const {
    if (isa_.gemm_tile.a_offset != 0 || isa_.gemm_tile.a_bytes != 1) return 0;
    const int64_t beyond = ceil_div(product_.panels().padded_k() - k_, k_);
    return std::max<int64_t>(rows_ - beyond, 0) / tile() * tile();
  }

  void run_part(const RunContext& context, const Part& part, std::byte* scratch) const {
    const auto* x = context.input<int8_t>(0);
    const int64_t last = std::min(part.row_end * tile(), rows_);
    for (int64_t row = part.row_begin * tile(); row < last;) {
      isa::Gemm block = product_.block_at(context, 0, row);
      block.runs = kOneRun;
      block.rows = std::min(block_rows_, last - row);
      if (row < in_place_) {
        block.rows = std::min(block.rows, in_place_ - row);
        block.a = reinterpret_cast<const std::byte*>(x + row * k_);
        block.a_stride = k_;
      } else {
        block.a = scratch;
        block.a_stride = product_.panels().a_stride();
        isa_.pack_a(scratch, block.a_stride, x + row * k_, k_, block.rows, k_);
      }
      product_.multiply(block, part.panel_begin, part.panel_end);
      row += block.rows;
    }
  }

  const isa::Isa& isa_;
  int64_t rows_;
  int64_t k_;
  WeightedProduct product_;
  int64_t block_rows_;
  int64_t in_place_;  // of the rows, from the first
};

}  // namespace vpu
