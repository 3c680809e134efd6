// Convolution of each channel with its own filter, straight from the image: every tap is a pointer
// that moves along with the output pixels.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/conv_geometry.h"
#include "ops/parallel.h"
#include "ops/weighted.h"

namespace vpu {

class DepthwiseConv final : public Kernel {
 public:
  DepthwiseConv(const PrepareContext& context, const ConvGeometry& geometry,
                const WeightedOperands& operands)
      : isa_(context.isa),
        g_(geometry),
        weighted_(operands),
        taps_(padded_taps(isa_, geometry)),
        by_columns_(taps_ == geometry.x.taps * padded_to_step(isa_, geometry.y.taps)),
        padding_(context.memory.pack<int8_t>(geometry.row_stride(), [&](int8_t* row) {
          std::fill_n(row, geometry.row_stride(), static_cast<int8_t>(operands.x_zero_point));
        })) {
    pack(operands, context.memory);
  }

  size_t scratch_bytes() const override {
    return static_cast<size_t>(taps_) * sizeof(const int8_t*);
  }

  int64_t macs_per_output() const override { return weighted_.per_channel; }

  // A unit is a row of outputs.
  void run(const RunContext& context) const override {
    const int64_t work = g_.x.output * g_.channels * weighted_.per_channel / 4 + 1;
    parallel(context.workers, g_.images * g_.y.output, work,
             [&](int task, int64_t begin, int64_t end) {
               auto** taps = reinterpret_cast<const int8_t**>(
                   context.scratch + static_cast<size_t>(task) * align_up(scratch_bytes()));
               for (int64_t row = begin; row < end; ++row) run_row(context, row, taps);
             });
  }

 private:
  static int64_t padded_to_step(const isa::Isa& isa, int64_t taps) {
    return ceil_div(taps, isa.depthwise_tile.tap_step) * isa.depthwise_tile.tap_step;
  }
  static int64_t padded_taps(const isa::Isa& isa, const ConvGeometry& g) {
    return padded_to_step(isa, g.y.taps * g.x.taps);
  }

  // Calls f(place among the packed taps, ky, kx) for every tap.
  template <class F>
  void for_each_tap(F f) const {
    for (int64_t ky = 0; ky < g_.y.taps; ++ky) {
      for (int64_t kx = 0; kx < g_.x.taps; ++kx) {
        f(by_columns_ ? kx * (taps_ / g_.x.taps) + ky : ky * g_.x.taps + kx, ky, kx);
      }
    }
  }

  void pack(const WeightedOperands& operands, PackedMemory& memory) {
    const isa::DepthwiseTile& tile = isa_.depthwise_tile;
    const int64_t padded = ceil_div(g_.channels, tile.block) * tile.block;
    weight_ = memory.pack<int8_t>(padded * taps_, [&](int8_t* packed) {
      std::fill_n(packed, padded * taps_, 0);
      for (int64_t i = 0; i < padded; ++i) {
        const int64_t c = channel_at(i);
        if (c >= g_.channels) continue;
        const int64_t block = i / tile.block;
        const int8_t* weight = operands.weight + c * operands.per_channel;
        for_each_tap([&](int64_t t, int64_t ky, int64_t kx) {
          const int64_t group = block * taps_ / tile.tap_step + t / tile.tap_step;
          const int64_t place = group * tile.block + i % tile.block;
          packed[place * tile.tap_step + t % tile.tap_step] = weight[ky * g_.x.taps + kx];
        });
      }
    });
    bias_ = pack_channels<int32_t>(memory, padded,
                                   [&](int64_t c) { return operands.folded_bias(c, tile.offset); });
    multiplier_ =
        pack_channels<float>(memory, padded, [&](int64_t c) { return operands.multiplier[c]; });
  }

  // The channel that is packed at i.
  int64_t channel_at(int64_t i) const {
    const isa::DepthwiseTile& tile = isa_.depthwise_tile;
    const int64_t at = i % tile.block;
    const int64_t half = i - at + tile.block / 2;
    const int64_t c = i - at + (tile.order == nullptr ? at : tile.order[at]);
    return tile.twice && g_.channels <= half && c >= half ? c - tile.block / 2 : c;
  }

  template <class T, class Value>
  const T* pack_channels(PackedMemory& memory, int64_t padded, Value value) const {
    return memory.pack<T>(padded, [&](T* packed) {
      for (int64_t i = 0; i < padded; ++i) {
        const int64_t c = channel_at(i);
        packed[i] = c < g_.channels ? value(c) : T{0};
      }
    });
  }

  void run_row(const RunContext& context, int64_t row, const int8_t** taps) const {
    const int8_t* image =
        context.input<int8_t>(0) + row / g_.y.output * g_.y.input * g_.row_stride();
    const int64_t begin = g_.x.interior_begin();
    const int64_t end = g_.x.interior_end();
    for (int64_t ox = 0; ox < g_.x.output;) {
      const int64_t pixels = ox == begin && end > begin ? end - begin : 1;
      find_taps(image, row % g_.y.output, ox, taps);
      run_pixels(context, row * g_.x.output + ox, pixels, taps);
      ox += pixels;
    }
  }

  // Taps outside the image, and those that only make up the number, read padding.
  void find_taps(const int8_t* image, int64_t oy, int64_t ox, const int8_t** taps) const {
    std::fill_n(taps, taps_, padding_);
    for_each_tap([&](int64_t t, int64_t ky, int64_t kx) {
      const int64_t iy = g_.y.position(oy, ky);
      const int64_t ix = g_.x.position(ox, kx);
      if (!g_.y.inside(iy) || !g_.x.inside(ix)) return;
      taps[t] = image + iy * g_.row_stride() + ix * g_.channels;
    });
  }

  void run_pixels(const RunContext& context, int64_t pixel, int64_t pixels,
                  const int8_t* const* taps) const {
    isa::Depthwise args{};
    args.taps = taps;
    args.tap_count = static_cast<int>(taps_);
    args.x_stride = g_.x.stride * g_.channels;
    args.pixels = pixels;
    const bool columns = by_columns_ && g_.y.taps == 3 && g_.x.taps == 3 && g_.x.dilation == 1;
    args.column_step = columns && g_.x.stride <= 2 ? static_cast<int>(g_.x.stride) : 0;
    args.channels = g_.channels;
    args.weight = weight_;
    args.bias = bias_;
    args.multiplier = multiplier_;
    args.residual = weighted_.residual_in(context);
    if (args.residual.x != nullptr) args.residual.x += pixel * g_.channels;
    args.y = context.out<int8_t>() + pixel * g_.channels;
    args.y_stride = g_.channels;
    args.store = weighted_.store;
    isa_.depthwise(args);
  }

  const isa::Isa& isa_;
  ConvGeometry g_;
  Weighted weighted_;
  int64_t taps_;  // padded to what the set takes at a time
  bool by_columns_;
  const int8_t* padding_;  // a row of the image
  const int8_t* weight_ = nullptr;
  const int32_t* bias_ = nullptr;
  const float* multiplier_ = nullptr;
};

}  // namespace vpu
