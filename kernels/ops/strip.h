// A block of image rows as convolution kernels read it: copied, packed and padded, so that a row of
// the filter lies under every output pixel without a gap, and the pixels of all output rows of the
// block lie at one distance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "isa/micro_kernels.h"
#include "ops/conv_geometry.h"

namespace vpu {

// The layout, for blocks of at most `rows` output rows.
//
// A strip is made of planes of image rows. With stride s, output row o reads plane t % s at row
// o + t / s for the filter's row t: going down one output row is going down one row in any plane.
// A dilated filter has a plane for each of its rows.
//
// Where a row of the filter is much shorter than a step of the micro-kernel (the first layer, with
// its three channels), planes are folded into one: a pixel of it has the channels of s image rows,
// and a run s rows of the filter.
class Strip {
 public:
  Strip(const PrepareContext& context, const ConvGeometry& g, int64_t channels, int8_t zero_point)
      : isa_(context.isa),
        g_(g),
        channels_(channels),
        folded_rows_(rows_to_fold(isa_, g, channels)),
        // Of a filter one pixel wide, only the columns it sees are copied.
        columns_{g.x.input, 0, 1, g.x.taps == 1 ? g.x.stride : 1, g.x.pad, 1},
        stride_(g.x.stride / columns_.stride) {
    const int64_t span = (g.x.output - 1) * stride_ + (g.x.taps - 1) * g.x.dilation + 1;
    // The padding right of a row may be the one left of the next.
    const int64_t right = std::max<int64_t>(span - g.x.pad - g.x.input, 0);
    shared_ = columns_.stride == 1 ? std::min(g.x.pad, right) : 0;
    row_pixels_ = std::max(ceil_div(span - shared_, stride_), g.x.output);
    columns_.output = row_pixels_ * stride_;
    const int64_t padding = std::max(columns_.output, shared_) * pixel_channels();
    padding_ = context.memory.pack<int8_t>(
        padding, [&](int8_t* values) { std::fill_n(values, padding, zero_point); });
    find_planes();
    choose_rows();
    context.memory.charge(sizeof(int32_t) * static_cast<uint64_t>(g.y.taps * g.x.taps));
    find_runs();
    if (row_pixels_ != g.x.output) {
      context.memory.charge(sizeof(int32_t) * static_cast<uint64_t>(block_pixels(rows_)));
      y_rows_.reserve(static_cast<size_t>(block_pixels(rows_)));
      for (int64_t i = 0; i < block_pixels(rows_); ++i) {
        const int64_t x = i % row_pixels_;
        const bool outside = x >= g.x.output;
        y_rows_.push_back(static_cast<int32_t>(outside ? -1 : i / row_pixels_ * g.x.output + x));
      }
    }
  }

  int64_t rows() const { return rows_; }
  int64_t folded_rows() const { return folded_rows_; }
  int64_t run_length() const { return run_length_; }
  int64_t run_count() const { return static_cast<int64_t>(runs_.size()); }
  int64_t image_bytes() const { return g_.y.output * planes() * row_bytes(); }

  // Memory for a block; the micro-kernel reads rows up to a multiple of its tile's, and runs up to
  // a multiple of its step.
  size_t bytes() const {
    const isa::GemmTile& tile = isa_.gemm_tile;
    const int64_t beyond = tile.mr * pixel_bytes() * stride_ + tile.k_step * tile.a_bytes;
    return static_cast<size_t>(plane_rows_.back() * row_bytes() + shared_ * pixel_bytes() + beyond);
  }

  // Copies what output rows [row, row + count) of an image see.
  void copy(const int8_t* image, int64_t row, int64_t count, std::byte* strip) const {
    for (int64_t p = 0; p < planes(); ++p) {
      std::byte* dst = strip + plane_rows_[p] * row_bytes();
      for (int64_t i = 0; i < count + beyond_[p]; ++i, dst += row_bytes()) {
        const int64_t iy = (row + i) * g_.y.stride + first_[p] - g_.y.pad;
        for (int64_t f = 0; f < folded_rows_; ++f) {
          copy_row(image, iy + f, dst + f * channels_ * isa_.gemm_tile.a_bytes);
        }
      }
      pad_whole(dst, shared_);
    }
  }

  // What the micro-kernel is to read of a block of `count` output rows, and where it is to write,
  // counted in pixels from the block's first.
  void describe(const std::byte* strip, int64_t count, isa::Gemm* g) const {
    g->a = strip;
    g->a_stride = stride_ * pixel_bytes();
    g->runs = runs_.data();
    g->rows = block_pixels(count);
    g->y_rows = y_rows_.empty() ? nullptr : y_rows_.data();
  }

 private:
  static constexpr int64_t kBytes = 256 * 1024;  // leaves the L2 cache to weights and outputs

  // As many as make the packed filter shortest: all that a stride steps over, or one.
  static int64_t rows_to_fold(const isa::Isa& isa, const ConvGeometry& g, int64_t channels) {
    if (g.y.dilation > 1 || g.y.stride == 1 || g.y.taps == 1 || g.x.dilation > 1) return 1;
    const int64_t step = isa.gemm_tile.k_step;
    const int64_t run = g.x.taps * channels;
    const int64_t folded = ceil_div(g.y.taps, g.y.stride) * ceil_div(run * g.y.stride, step);
    return folded < g.y.taps * ceil_div(run, step) ? g.y.stride : 1;
  }

  int64_t planes() const { return static_cast<int64_t>(first_.size()); }
  int64_t pixel_channels() const { return folded_rows_ * channels_; }
  int64_t pixel_bytes() const { return pixel_channels() * isa_.gemm_tile.a_bytes; }
  int64_t row_bytes() const { return columns_.output * pixel_bytes(); }
  int64_t block_pixels(int64_t rows) const { return (rows - 1) * row_pixels_ + g_.x.output; }

  void find_planes() {
    const ConvAxis& y = g_.y;
    const bool dilated = y.dilation > 1;
    const int64_t planes = dilated ? y.taps : std::min(y.taps, y.stride);
    for (int64_t p = 0; p < (folded_rows_ > 1 ? 1 : planes); ++p) {
      first_.push_back(p * y.dilation);
      beyond_.push_back(dilated ? 0 : (y.taps - 1 - p) / y.stride);
    }
  }

  void choose_rows() {
    int64_t beyond = 0;
    for (const int64_t rows : beyond_) beyond += rows;
    const int64_t most = std::max<int64_t>((kBytes / row_bytes() - beyond) / planes(), 1);
    rows_ = ceil_div(g_.y.output, ceil_div(g_.y.output, most));
    plane_rows_.push_back(0);
    for (const int64_t rows : beyond_) plane_rows_.push_back(plane_rows_.back() + rows_ + rows);
  }

  // A row of the filter is one run where its pixels are neighbours.
  void find_runs() {
    const bool whole = g_.x.dilation == 1 || g_.x.taps == 1;
    run_length_ = (whole ? g_.x.taps : 1) * pixel_channels();
    for (int64_t t = 0; t < ceil_div(g_.y.taps, folded_rows_); ++t) {
      const int64_t row = plane_rows_[t % planes()] + t / planes();
      for (int64_t x = 0; x < (whole ? 1 : g_.x.taps); ++x) {
        const int64_t pixel = row * columns_.output + x * g_.x.dilation;
        runs_.push_back(static_cast<int32_t>(pixel * pixel_bytes()));
      }
    }
  }

  // A row of the image, or of padding, to the pixels from `dst` on.
  void copy_row(const int8_t* image, int64_t row, std::byte* dst) const {
    if (!g_.y.inside(row)) return pad(dst, columns_.output);
    const int64_t begin = columns_.interior_begin();
    const int64_t end = columns_.interior_end();
    pad(dst, begin);
    const int8_t* src = image + row * g_.row_stride() + columns_.position(begin, 0) * g_.channels;
    std::byte* to = dst + begin * pixel_bytes();
    if (columns_.stride == 1 && folded_rows_ == 1 && channels_ == g_.channels) {
      if (end > begin) isa_.pack_a(to, 0, src, 0, 1, (end - begin) * channels_);
    } else {
      isa_.pack_a(to, pixel_bytes(), src, columns_.stride * g_.channels, end - begin, channels_);
    }
    pad(dst + end * pixel_bytes(), columns_.output - end);
  }

  void pad(std::byte* dst, int64_t pixels) const {
    if (folded_rows_ == 1) return pad_whole(dst, pixels);
    isa_.pack_a(dst, pixel_bytes(), padding_, 0, pixels, channels_);
  }

  void pad_whole(std::byte* dst, int64_t pixels) const {
    if (pixels > 0) isa_.pack_a(dst, 0, padding_, 0, 1, pixels * pixel_channels());
  }

  const isa::Isa& isa_;
  ConvGeometry g_;
  int64_t channels_;     // of a group
  int64_t folded_rows_;  // of the image, into a pixel
  ConvAxis columns_;     // which column of the image each column of a row is
  int64_t stride_;       // from one output pixel to the next, in columns
  int64_t shared_;       // columns after a row that are the first of the next
  int64_t row_pixels_;   // output pixels from one row to the next; the last may be outside
  int64_t rows_ = 0;
  int64_t run_length_ = 0;
  const int8_t* padding_ = nullptr;
  std::vector<int64_t> first_;       // of each plane: its first row, from the output row's first
  std::vector<int64_t> beyond_;      // how many rows more than the output it has
  std::vector<int64_t> plane_rows_;  // the row of the strip where it starts; and the end
  std::vector<int32_t> runs_;        // the offset of each, in bytes
  std::vector<int32_t> y_rows_;
};

}  // namespace vpu
