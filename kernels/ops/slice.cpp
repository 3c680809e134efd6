#include <cstring>

#include "ops/axes.h"
#include "ops/check.h"
#include "ops/parallel.h"

namespace vpu {
namespace {

class Slice final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    const schema::Slice& table = *context.instruction.op_as_Slice();
    VPU_RETURN_IF_ERROR(expect_inputs(context, 1, 1));
    const TensorInfo& x = context.inputs[0];
    const TensorInfo& y = context.output;
    VPU_RETURN_IF_ERROR(expect_int8({&x, &y}));
    const size_t rank = x.shape.size();
    VPU_RETURN_IF_ERROR(expect_rank(y, "the output", rank));
    const std::vector<int32_t> begin = values(context, table.begin());
    const std::vector<int32_t> step = values(context, table.step());
    VPU_EXPECT(begin.size() == rank && step.size() == rank,
               "it has %zu begins and %zu steps for %zu dimensions", begin.size(), step.size(),
               rank);
    auto slice = std::make_unique<Slice>();
    const std::vector<int64_t> x_strides = strides_of(x.shape);
    const std::vector<int64_t> y_strides = strides_of(y.shape);
    Axes<2> axes;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t last = begin[d] + int64_t{step[d]} * (y.shape[d] - 1);
      VPU_EXPECT(begin[d] >= 0 && begin[d] < x.shape[d] && last >= 0 && last < x.shape[d],
                 "in dimension %zu it reads from %d to %lld of %d", d, begin[d],
                 static_cast<long long>(last), x.shape[d]);
      slice->begin_ += begin[d] * x_strides[d];
      axes.push_back({y.shape[d], {step[d] * x_strides[d], y_strides[d]}});
    }
    slice->rows_ = simplified(axes);
    slice->row_ = take_innermost(&slice->rows_);
    *kernel = std::move(slice);
    return {};
  }

  void run(const RunContext& context) const override {
    const int8_t* x = context.input<int8_t>(0) + begin_;
    parallel(context.workers, size_of(rows_), row_.size, [&](int, int64_t begin, int64_t end) {
      Walk<2> walk(rows_, begin);
      for (int64_t row = begin; row < end; ++row, walk.next()) {
        copy(x + walk.offset(0), context.out<int8_t>() + walk.offset(1));
      }
    });
  }

 private:
  void copy(const int8_t* x, int8_t* y) const {
    const int64_t step = row_.stride[0];
    if (step == 1) {
      std::memcpy(y, x, static_cast<size_t>(row_.size));
    } else {
      for (int64_t i = 0; i < row_.size; ++i) y[i] = x[i * step];
    }
  }

  int64_t begin_ = 0;
  Axes<2> rows_;
  Axis<2> row_{1, {}};
};

VPU_KERNEL(Slice, Slice::prepare);

}  // namespace
}  // namespace vpu
