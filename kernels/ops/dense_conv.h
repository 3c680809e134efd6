// Convolution as a matrix product: the pixels of a block of output rows, each seeing the runs of
// its strip, times the weights.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/conv_geometry.h"
#include "ops/strip.h"
#include "ops/weighted.h"

namespace vpu {

// Groups that together are narrower than a panel are computed as one, with zeros where a weight
// would join two of them: it costs no more multiplications, and copies whole pixels.
inline int64_t groups_side_by_side(const isa::Isa& isa, const ConvGeometry& g) {
  int64_t together = std::max<int64_t>(isa.gemm_tile.nr / (g.out_channels / g.groups), 1);
  while (g.groups % together != 0) --together;
  return together;
}

class DenseConv final : public Kernel {
 public:
  DenseConv(const PrepareContext& context, const ConvGeometry& geometry,
            const WeightedOperands& operands)
      : DenseConv(context, geometry, operands, groups_side_by_side(context.isa, geometry)) {}

  size_t scratch_bytes() const override { return strip_.bytes(); }
  int64_t macs_per_output() const override {
    return g_.y.taps * g_.x.taps * (g_.channels / g_.groups);
  }

  // The strip too: of a dilated or padded filter it may be far longer than the image.
  double work_per_output() const override {
    const double outputs = static_cast<double>(g_.images * g_.y.output * g_.x.output) *
                           static_cast<double>(g_.out_channels);
    const double copied = static_cast<double>(g_.images * product_.groups()) *
                          static_cast<double>(strip_.image_bytes());
    return Kernel::work_per_output() + copied / outputs;
  }

  void run(const RunContext& context) const override {
    const int64_t strip_bytes = g_.images * strip_.image_bytes() * product_.groups();
    product_.split(context, scratch_bytes(), g_.images * g_.y.output, g_.x.output, strip_bytes,
                   [&](const Part& part, std::byte* scratch) { run_part(context, part, scratch); });
  }

 private:
  DenseConv(const PrepareContext& context, const ConvGeometry& geometry,
            const WeightedOperands& operands, int64_t together)
      : g_(geometry),
        group_channels_(together * geometry.channels / geometry.groups),
        strip_(context, geometry, group_channels_, static_cast<int8_t>(operands.x_zero_point)),
        product_(context, operands, geometry.groups / together, strip_.run_count(),
                 strip_.run_length(), [&](int64_t group, std::vector<int8_t>* buffer) {
                   return arrange(geometry, operands, strip_.folded_rows(), together, group,
                                  buffer);
                 }) {}

  // The weights of `together` groups as rows over all of their channels, in the order of the strip.
  static const int8_t* arrange(const ConvGeometry& g, const WeightedOperands& operands,
                               int64_t folded_rows, int64_t together, int64_t group,
                               std::vector<int8_t>* buffer) {
    const int64_t out_channels = g.out_channels / g.groups;  // of one group
    const int64_t channels = g.channels / g.groups;
    const int8_t* weight = operands.weight + group * together * out_channels * operands.per_channel;
    if (together == 1 && folded_rows == 1) return weight;
    const int64_t rows = ceil_div(g.y.taps, folded_rows);
    const int64_t length = rows * g.x.taps * folded_rows * together * channels;
    buffer->assign(static_cast<size_t>(together * out_channels * length), 0);
    for (int64_t n = 0; n < together * out_channels; ++n) {
      for (int64_t ky = 0; ky < g.y.taps; ++ky) {
        for (int64_t kx = 0; kx < g.x.taps; ++kx, weight += channels) {
          const int64_t pixel = (ky / folded_rows * g.x.taps + kx) * folded_rows + ky % folded_rows;
          std::copy_n(
              weight, channels,
              buffer->data() + n * length + (pixel * together + n / out_channels) * channels);
        }
      }
    }
    return buffer->data();
  }

  void run_part(const RunContext& context, const Part& part, std::byte* scratch) const {
    for (int64_t row = part.row_begin; row < part.row_end;) {
      const int64_t image = row / g_.y.output;
      const int64_t oy = row % g_.y.output;
      const int64_t count = std::min({strip_.rows(), part.row_end - row, g_.y.output - oy});
      const int8_t* x = context.input<int8_t>(0) + image * g_.y.input * g_.row_stride();
      product_.for_each_group(part, [&](int64_t group, int64_t begin, int64_t end) {
        strip_.copy(x + group * group_channels_, oy, count, scratch);
        isa::Gemm block = product_.block_at(context, group, row * g_.x.output);
        strip_.describe(scratch, count, &block);
        product_.multiply(block, begin, end);
      });
      row += count;
    }
  }

  ConvGeometry g_;
  int64_t group_channels_;
  Strip strip_;
  WeightedProduct product_;
};

}  // namespace vpu
