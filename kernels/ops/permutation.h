// Reordering dimensions, as tiles small enough for the L1 cache: Transpose, Quantize, Dequantize.
#pragma once

#include <algorithm>
#include <string>

#include "ops/axes.h"
#include "ops/check.h"
#include "ops/parallel.h"

namespace vpu {

// Output dimension i is input dimension perm[i]. Brings any permutation down to equal planes, which
// are either runs that both sides hold dense, or matrices to transpose:
//   y[j * y_stride + i] = x[i * x_stride + j]   for i < rows, j < columns
class Permutation {
 public:
  static constexpr int64_t kTileElements = 32 * 1024;

  struct Tile {
    int64_t x;  // offsets of its first element
    int64_t y;
    int64_t rows;  // 1 for a run
    int64_t columns;
  };

  // Of the instruction's input to its output.
  Status prepare(const PrepareContext& context, const flatbuffers::Vector<int32_t>* perm) {
    const TensorInfo& x = context.inputs[0];
    const TensorInfo& y = context.output;
    const std::vector<int32_t> order = values(context, perm);
    const size_t rank = x.shape.size();
    VPU_EXPECT(order.size() == rank, "it permutes %zu dimensions of %zu", order.size(), rank);
    const std::vector<int64_t> x_strides = strides_of(x.shape);
    std::vector<int32_t> shape;
    uint32_t seen = 0;
    for (const int32_t d : order) {
      VPU_EXPECT(d >= 0 && static_cast<size_t>(d) < rank && (seen >> d & 1) == 0,
                 "%s is not a permutation", to_string(order).c_str());
      seen |= uint32_t{1} << d;
      shape.push_back(x.shape[static_cast<size_t>(d)]);
    }
    VPU_RETURN_IF_ERROR(expect_shape(y, "the output", shape));
    const std::vector<int64_t> y_strides = strides_of(shape);
    Axes<2> axes;
    for (size_t i = 0; i < rank; ++i) {
      axes.push_back({shape[i], {x_strides[static_cast<size_t>(order[i])], y_strides[i]}});
    }
    plan(simplified(axes));
    return {};
  }

  bool transposes() const { return transposes_; }
  int64_t x_stride() const { return rows_.stride[0]; }
  int64_t y_stride() const { return columns_.stride[1]; }

  // f(task, tile) for every tile.
  template <class F>
  void for_each_tile(Workers& workers, F f) const {
    parallel(workers, size_of(tiles_), tile_rows_ * tile_columns_,
             [&](int task, int64_t begin, int64_t end) {
               Walk<2> walk(tiles_, begin);
               for (int64_t tile = begin; tile < end; ++tile, walk.next()) {
                 const int64_t row = walk.index(tiles_.size() - 2) * tile_rows_;
                 const int64_t column = walk.index(tiles_.size() - 1) * tile_columns_;
                 f(task,
                   Tile{walk.offset(0), walk.offset(1), std::min(tile_rows_, rows_.size - row),
                        std::min(tile_columns_, columns_.size - column)});
               }
             });
  }

 private:
  // Axes in the output's order.
  void plan(Axes<2> axes) {
    const Axis<2> innermost = take_innermost(&axes);
    transposes_ = innermost.size > 1 && innermost.stride[0] != 1;
    if (transposes_) {
      // What is innermost in the input; being dense, it has an axis of stride 1.
      const auto dense = std::find_if(axes.begin(), axes.end(),
                                      [](const Axis<2>& axis) { return axis.stride[0] == 1; });
      rows_ = innermost;
      columns_ = *dense;
      axes.erase(dense);
    } else {
      columns_ = innermost;
    }
    tile_columns_ = std::min<int64_t>(columns_.size, transposes_ ? 512 : kTileElements);
    tile_rows_ = std::min(rows_.size, std::max<int64_t>(kTileElements / tile_columns_ & ~7, 8));
    tiles_ = std::move(axes);
    tiles_.push_back(in_tiles(rows_, tile_rows_));
    tiles_.push_back(in_tiles(columns_, tile_columns_));
  }

  static Axis<2> in_tiles(const Axis<2>& axis, int64_t tile) {
    return {(axis.size + tile - 1) / tile, {axis.stride[0] * tile, axis.stride[1] * tile}};
  }

  bool transposes_ = false;
  Axis<2> rows_{1, {}};
  Axis<2> columns_{1, {}};
  int64_t tile_rows_ = 1;
  int64_t tile_columns_ = 1;
  Axes<2> tiles_;  // the planes, then the tiles of rows and of columns
};

}  // namespace vpu
