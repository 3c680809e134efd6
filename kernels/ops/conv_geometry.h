// Where a convolution's windows lie on the image.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/check.h"
#include "ops/gemm.h"

namespace vpu {

// Along one axis: output position o and tap t see the input position o * stride - pad + t *
// dilation.
struct ConvAxis {
  int64_t input;
  int64_t output;
  int64_t taps;
  int64_t stride;
  int64_t pad;
  int64_t dilation;

  int64_t position(int64_t o, int64_t t) const { return o * stride - pad + t * dilation; }
  bool inside(int64_t position) const { return position >= 0 && position < input; }

  // The outputs whose taps are all inside: [begin, end), empty as begin == end.
  int64_t interior_begin() const { return std::min(ceil_div(pad, stride), output); }
  int64_t interior_end() const {
    const int64_t last = input - 1 + pad - (taps - 1) * dilation;  // of o * stride
    return std::clamp<int64_t>(last < 0 ? 0 : last / stride + 1, interior_begin(), output);
  }

  // Every output sees the one input at its own position.
  bool is_identity() const { return taps == 1 && stride == 1 && pad == 0 && input == output; }
};

struct ConvGeometry {
  ConvAxis y;
  ConvAxis x;
  int64_t images;
  int64_t channels;      // of the input
  int64_t out_channels;  // of the output
  int64_t groups;

  int64_t pixels() const { return images * y.output * x.output; }
  int64_t row_stride() const { return x.input * channels; }
  bool is_pointwise() const { return groups == 1 && y.is_identity() && x.is_identity(); }
  bool is_depthwise() const { return groups == channels && groups == out_channels && groups > 1; }

  // Offsets to what a row of outputs sees fit an int32.
  static constexpr double kMostSeen = 1e9;

  Status read(const schema::Conv2d& conv, const PrepareContext& context) {
    const TensorInfo& in = context.inputs[0];
    const TensorInfo& weight = context.inputs[1];
    const TensorInfo& out = context.output;
    VPU_RETURN_IF_ERROR(expect_rank(in, "x", 4));
    VPU_RETURN_IF_ERROR(expect_rank(weight, "the weight", 4));
    VPU_RETURN_IF_ERROR(expect_rank(out, "the output", 4));
    VPU_EXPECT(in.shape[0] == out.shape[0], "it turns %d images into %d", in.shape[0],
               out.shape[0]);
    VPU_EXPECT(conv.stride_h() >= 1 && conv.stride_w() >= 1 && conv.dilation_h() >= 1 &&
                   conv.dilation_w() >= 1,
               "its strides are (%d, %d), its dilations (%d, %d)", conv.stride_h(), conv.stride_w(),
               conv.dilation_h(), conv.dilation_w());
    VPU_EXPECT(conv.pad_top() >= 0 && conv.pad_left() >= 0, "its padding is (%d, %d)",
               conv.pad_top(), conv.pad_left());
    y = {in.shape[1],     out.shape[1],   weight.shape[1],
         conv.stride_h(), conv.pad_top(), conv.dilation_h()};
    x = {in.shape[2],     out.shape[2],    weight.shape[2],
         conv.stride_w(), conv.pad_left(), conv.dilation_w()};
    images = in.shape[0];
    channels = in.shape[3];
    out_channels = out.shape[3];
    groups = conv.groups();
    VPU_EXPECT(groups >= 1 && channels % groups == 0 && out_channels % groups == 0,
               "its %lld groups do not divide %lld input and %lld output channels",
               static_cast<long long>(groups), static_cast<long long>(channels),
               static_cast<long long>(out_channels));
    VPU_EXPECT(weight.shape[3] == channels / groups, "a weight has %d channels, not %lld",
               weight.shape[3], static_cast<long long>(channels / groups));
    const double columns = static_cast<double>(x.output) * static_cast<double>(x.stride) +
                           static_cast<double>(x.taps) * static_cast<double>(x.dilation);
    const double seen = columns * static_cast<double>(y.taps * channels);
    VPU_EXPECT(seen <= kMostSeen, "a row of its outputs sees %g values", seen);
    return {};
  }
};

}  // namespace vpu
