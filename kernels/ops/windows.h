// Pooling windows: the schema's Windows, checked, and their cells as an isa::Window.
#pragma once

#include <vector>

#include "isa/micro_kernels.h"
#include "ops/axes.h"
#include "ops/check.h"

namespace vpu {

// Along one axis.
struct Windows {
  std::vector<int32_t> begin;
  std::vector<int32_t> end;
  int32_t step = 1;

  Status read(const PrepareContext& context, const schema::Windows* table, const char* name,
              int32_t input, int32_t output) {
    VPU_EXPECT(table != nullptr, "it has no windows of %s", name);
    begin = values(context, table->begin());
    end = values(context, table->end());
    step = table->step();
    VPU_EXPECT(
        begin.size() == static_cast<size_t>(output) && end.size() == begin.size() && step >= 1,
        "its windows of %s are not one per output, or have step %d", name, step);
    for (size_t i = 0; i < begin.size(); ++i) {
      VPU_EXPECT(begin[i] >= 0 && begin[i] < end[i] && end[i] <= input,
                 "its window [%d, %d) of %s is empty or not inside the input's %d", begin[i],
                 end[i], name, input);
    }
    return {};
  }

  int64_t cells(size_t i) const { return (int64_t{end[i]} - begin[i] + step - 1) / step; }

  int64_t most_cells() const {
    int64_t most = 0;
    for (size_t i = 0; i < begin.size(); ++i) most = std::max(most, cells(i));
    return most;
  }
};

// Of an [N, H, W, C] image.
struct Pooling {
  Windows rows;
  Windows columns;
  int32_t height = 0;
  int32_t width = 0;
  int32_t channels = 0;
  int64_t images = 0;

  template <class Table>
  Status read(const Table& table, const PrepareContext& context) {
    VPU_RETURN_IF_ERROR(expect_inputs(context, 1, 1));
    const TensorInfo& x = context.inputs[0];
    const TensorInfo& y = context.output;
    VPU_RETURN_IF_ERROR(expect_int8({&x, &y}));
    VPU_RETURN_IF_ERROR(expect_rank(x, "x", 4));
    VPU_RETURN_IF_ERROR(expect_rank(y, "the output", 4));
    VPU_EXPECT(x.shape[0] == y.shape[0] && x.shape[3] == y.shape[3],
               "the output %s has not the images and channels of the input %s",
               to_string(y.shape).c_str(), to_string(x.shape).c_str());
    images = x.shape[0];
    height = x.shape[1];
    width = x.shape[2];
    channels = x.shape[3];
    VPU_RETURN_IF_ERROR(rows.read(context, table.rows(), "rows", height, y.shape[1]));
    return columns.read(context, table.columns(), "columns", width, y.shape[2]);
  }

  int64_t output_rows() const { return images * static_cast<int64_t>(rows.begin.size()); }

  // Of a window.
  double most_cells() const {
    return static_cast<double>(rows.most_cells()) * static_cast<double>(columns.most_cells());
  }

  // Cells read for a row of outputs.
  int64_t row_work() const {
    return rows.most_cells() * columns.most_cells() * channels *
           static_cast<int64_t>(columns.begin.size());
  }

  // Of output (i, j) of an image.
  isa::Window window(const int8_t* x, int64_t image, size_t i, size_t j) const {
    const int64_t row = int64_t{width} * channels;
    return {x + (image * height + rows.begin[i]) * row + int64_t{columns.begin[j]} * channels,
            rows.cells(i), rows.step * row, columns.cells(j), int64_t{columns.step} * channels};
  }

  // f(image, i, j, index of the output pixel) for output rows begin .. end.
  template <class F>
  void for_each_output(int64_t begin, int64_t end, F f) const {
    const auto height_out = static_cast<int64_t>(rows.begin.size());
    for (int64_t row = begin; row < end; ++row) {
      for (size_t j = 0; j < columns.begin.size(); ++j) {
        f(row / height_out, static_cast<size_t>(row % height_out), j,
          row * static_cast<int64_t>(columns.begin.size()) + static_cast<int64_t>(j));
      }
    }
  }
};

}  // namespace vpu
