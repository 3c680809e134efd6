// What Conv2d and Linear share: weights, bias, a multiplier per output channel, a residual.
//   inputs: x, weight [O, ...], bias [O], multiplier [O], optionally residual
#pragma once

#include <cstdlib>
#include <vector>

#include "isa/micro_kernels.h"
#include "ops/check.h"
#include "ops/gemm.h"
#include "ops/parallel.h"
#include "ops/store.h"

namespace vpu {

// What running needs to know.
struct Weighted {
  // An element of the residual is read before that of the output is written, by the same task.
  static constexpr size_t kResidual = 4;

  int64_t channels = 0;
  int64_t per_channel = 0;
  int32_t x_zero_point = 0;
  isa::Residual residual{};
  bool has_residual = false;
  isa::Store store{};
  bool fits_int = true;  // what is stored, before it is clamped

  isa::Residual residual_in(const RunContext& context) const {
    isa::Residual in = residual;
    if (has_residual) in.x = context.input<int8_t>(kResidual);
    return in;
  }
};

// The operands, checked, and in the blob.
struct WeightedOperands : Weighted {
  static constexpr uint32_t kPacked = 1u << 1 | 1u << 2 | 1u << 3;

  const int8_t* weight = nullptr;  // channels x per_channel
  const int32_t* bias = nullptr;
  const float* multiplier = nullptr;
  std::vector<uint32_t> weight_sums;  // modulo 2^32

  template <class Table>
  Status read(const PrepareContext& context, const Table& table) {
    VPU_RETURN_IF_ERROR(expect_inputs(context, 4, 5));
    const TensorInfo& x = context.inputs[0];
    const TensorInfo& w = context.inputs[1];
    const TensorInfo& y = context.output;
    VPU_RETURN_IF_ERROR(expect_int8({&x, &y}));
    VPU_EXPECT(!w.shape.empty() && !y.shape.empty(), "its weight or its output is a scalar");
    VPU_RETURN_IF_ERROR(expect_constant(w, "the weight", schema::DType_Int8, w.shape));
    const std::vector<int32_t> per_output = {w.shape[0]};
    VPU_RETURN_IF_ERROR(
        expect_constant(context.inputs[2], "the bias", schema::DType_Int32, per_output));
    VPU_RETURN_IF_ERROR(
        expect_constant(context.inputs[3], "the multiplier", schema::DType_Float32, per_output));
    VPU_EXPECT(y.shape.back() == w.shape[0], "the output has %d channels, the weight %d",
               y.shape.back(), w.shape[0]);
    weight = static_cast<const int8_t*>(w.constant);
    bias = static_cast<const int32_t*>(context.inputs[2].constant);
    multiplier = static_cast<const float*>(context.inputs[3].constant);
    channels = w.shape[0];
    per_channel = w.elements() / channels;
    x_zero_point = x.zero_point;
    double largest = 0;
    VPU_RETURN_IF_ERROR(read_values(context.isa, &largest));
    VPU_RETURN_IF_ERROR(read_store(table, y, &store));
    has_residual = context.inputs.size() == 5;
    fits_int = largest + 256 * std::abs(double{table.residual_multiplier()}) < 2e9;
    if (!has_residual) return {};
    const TensorInfo& r = context.inputs[kResidual];
    VPU_RETURN_IF_ERROR(expect_int8({&r}));
    VPU_RETURN_IF_ERROR(expect_shape(r, "the residual", y.shape));
    VPU_RETURN_IF_ERROR(expect_multiplier(table.residual_multiplier(), "the residual multiplier"));
    residual = {nullptr, channels, r.zero_point, table.residual_multiplier()};
    return {};
  }

  // The bias for x + offset in place of x - zero_point. What does not fit wraps, as the sum does.
  int32_t folded_bias(int64_t channel, int32_t offset) const {
    const uint32_t sum = weight_sums[static_cast<size_t>(channel)];
    return static_cast<int32_t>(static_cast<uint32_t>(bias[channel]) -
                                static_cast<uint32_t>(x_zero_point + offset) * sum);
  }

 private:
  // Also finds the largest sum, times its multiplier, that x can give.
  Status read_values(const isa::Isa& isa, double* largest) {
    *largest = 0;
    weight_sums.reserve(static_cast<size_t>(channels));
    for (int64_t c = 0; c < channels; ++c) {
      VPU_RETURN_IF_ERROR(expect_multiplier(multiplier[c], "a multiplier"));
      const isa::WeightSums sums = isa.sum_weights(weight + c * per_channel, per_channel);
      weight_sums.push_back(static_cast<uint32_t>(sums.sum));
      VPU_EXPECT(sums.least >= -127, "a weight of channel %lld is -128", static_cast<long long>(c));
      const int64_t sum = sums.magnitude * kMaxCentered + std::abs(int64_t{bias[c]});
      VPU_EXPECT(sum <= kInt32Max, "an int32 may not hold the sum of channel %lld",
                 static_cast<long long>(c));
      *largest = std::max(*largest, static_cast<double>(sum) * std::abs(double{multiplier[c]}));
    }
    return {};
  }
};

// What a task does of a product: some rows, and some panels, counted over all groups.
struct Part {
  int64_t row_begin;
  int64_t row_end;
  int64_t panel_begin;
  int64_t panel_end;
};

// Weights packed for the instruction set: per group, a matrix of runs * k rows.
class WeightedProduct {
 public:
  // `weight(group, buffer)` answers group's weights, one column after another; it may build them in
  // the buffer.
  template <class Weight>
  WeightedProduct(const PrepareContext& context, const WeightedOperands& operands, int64_t groups,
                  int64_t runs, int64_t k, Weight weight)
      : weighted_(operands),
        panels_(context.isa, runs, k, operands.channels / groups),
        groups_(groups),
        weight_(context.memory.pack<int8_t>(
            groups * panels_.bytes(),
            [&](int8_t* packed) {
              std::vector<int8_t> buffer;
              for (int64_t g = 0; g < groups; ++g, packed += panels_.bytes()) {
                panels_.pack(weight(g, &buffer), 1, runs * k, packed);
              }
            })),
        bias_(pack_columns<int32_t>(
            context,
            [&](int64_t c) { return operands.folded_bias(c, context.isa.gemm_tile.a_offset); })),
        multiplier_(
            pack_columns<float>(context, [&](int64_t c) { return operands.multiplier[c]; })) {}

  const Panels& panels() const { return panels_; }
  int64_t groups() const { return groups_; }

  // Calls body(part, scratch) in parallel. `row_bytes` is what all rows are together.
  //
  // A task reads its rows and its panels. Split what costs more to go through twice; but without
  // enough of it for all workers, the other.
  template <class Body>
  void split(const RunContext& context, size_t scratch_bytes, int64_t rows, int64_t pixels_per_row,
             int64_t row_bytes, Body body) const {
    const int64_t panels = groups_ * panels_.count;
    const int64_t workers = context.workers.count();
    const bool by_panels =
        panels >= workers &&
        (rows < workers ||
         row_bytes + rows * pixels_per_row * groups_ * panels_.columns < groups_ * panels_.bytes());
    const int64_t units = by_panels ? panels : rows;
    const int64_t outputs = pixels_per_row * panels_.width() * (by_panels ? rows : panels);
    const int64_t unit_work = outputs * (1 + panels_.padded_k() / kMultipliesPerWork);
    parallel(context.workers, units, unit_work, [&](int task, int64_t begin, int64_t end) {
      std::byte* scratch = context.scratch + static_cast<size_t>(task) * align_up(scratch_bytes);
      body(by_panels ? Part{0, rows, begin, end} : Part{begin, end, 0, panels}, scratch);
    });
  }

  // Calls f(group, begin, end) for the part's panels begin .. end of each group.
  template <class F>
  void for_each_group(const Part& part, F f) const {
    for (int64_t g = part.panel_begin / panels_.count; g * panels_.count < part.panel_end; ++g) {
      f(g, std::max(part.panel_begin - g * panels_.count, int64_t{0}),
        std::min(part.panel_end - g * panels_.count, panels_.count));
    }
  }

  // The product of a group, of which y's rows begin at `row`; without the rows of A.
  isa::Gemm block_at(const RunContext& context, int64_t group, int64_t row) const {
    const int64_t at = row * weighted_.channels + group * panels_.columns;
    isa::Gemm block{};
    block.run_count = panels_.runs;
    block.k = panels_.padded_run;
    block.b = weight_ + group * panels_.bytes();
    block.bias = bias_ + group * panels_.padded_columns();
    block.multiplier = multiplier_ + group * panels_.padded_columns();
    block.residual = weighted_.residual_in(context);
    if (block.residual.x != nullptr) block.residual.x += at;
    block.y = context.out<int8_t>() + at;
    block.y_stride = weighted_.channels;
    block.store = weighted_.store;
    block.fits_int = weighted_.fits_int;
    return block;
  }

  void multiply(const isa::Gemm& block, int64_t begin, int64_t end) const {
    vpu::multiply(panels_, block, begin, end);
  }

 private:
  // A value of each channel, as the panels have them.
  template <class T, class Value>
  const T* pack_columns(const PrepareContext& context, Value value) const {
    const int64_t padded = panels_.padded_columns();
    return context.memory.pack<T>(groups_ * padded, [&](T* packed) {
      for (int64_t g = 0; g < groups_; ++g) {
        for (int64_t n = 0; n < padded; ++n) {
          *packed++ = n < panels_.columns ? value(g * panels_.columns + n) : T{0};
        }
      }
    });
  }

  // Of a micro-kernel, against one element of a simple loop.
  static constexpr int64_t kMultipliesPerWork = 128;

  Weighted weighted_;
  Panels panels_;  // of one group
  int64_t groups_;
  const int8_t* weight_;
  const int32_t* bias_;
  const float* multiplier_;
};

}  // namespace vpu
