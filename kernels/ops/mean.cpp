#include "ops/average.h"
#include "ops/axes.h"
#include "ops/parallel.h"
#include "ops/store.h"

namespace vpu {
namespace {

class Mean final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    const schema::Mean& table = *context.instruction.op_as_Mean();
    VPU_RETURN_IF_ERROR(expect_inputs(context, 1, 1));
    const TensorInfo& x = context.inputs[0];
    VPU_RETURN_IF_ERROR(expect_int8({&x, &context.output}));
    auto mean = std::make_unique<Mean>(context.isa);
    VPU_RETURN_IF_ERROR(mean->split(x, values(context, table.axes()), context.output));
    VPU_RETURN_IF_ERROR(expect_multiplier(table.multiplier(), "the multiplier"));
    VPU_RETURN_IF_ERROR(read_store(table, context.output, &mean->store_));
    mean->multiplier_ = table.multiplier();
    mean->zero_point_ = x.zero_point;
    *kernel = std::move(mean);
    return {};
  }

  explicit Mean(const isa::Isa& isa) : isa_(isa) {}

  double work_per_output() const override { return 1 + static_cast<double>(cells_); }

  // A unit is a block of channels at one position of the kept axes.
  void run(const RunContext& context) const override {
    const int64_t blocks = (channels_ + kSumBlock - 1) / kSumBlock;
    parallel(context.workers, size_of(kept_) * blocks, cells_ * std::min(channels_, kSumBlock),
             [&](int, int64_t begin, int64_t end) {
               Walk<1> walk(kept_, begin / blocks);
               for (int64_t unit = begin; unit < end; ++unit) {
                 const int64_t c = unit % blocks * kSumBlock;
                 average(context.input<int8_t>(0) + walk.offset(0) + c,
                         context.out<int8_t>() + unit / blocks * channels_ + c,
                         std::min(kSumBlock, channels_ - c));
                 if (unit % blocks == blocks - 1) walk.next();
               }
             });
  }

 private:
  // Sorts the input's axes into those summed over and those kept. If the innermost is kept, it is
  // the channels. Of those summed over, the two innermost make the window.
  Status split(const TensorInfo& x, const std::vector<int32_t>& axes, const TensorInfo& output) {
    const size_t rank = x.shape.size();
    const std::vector<int64_t> strides = strides_of(x.shape);
    std::vector<bool> reduced(rank, false);
    VPU_EXPECT(axes.size() <= rank, "it has %zu axes of %zu", axes.size(), rank);
    for (size_t i = 0; i < axes.size(); ++i) {
      VPU_RETURN_IF_ERROR(expect_axis(axes[i], x));
      VPU_EXPECT(i == 0 || axes[i] > axes[i - 1], "its axes %s do not ascend",
                 to_string(axes).c_str());
      reduced[static_cast<size_t>(axes[i])] = true;
    }
    std::vector<int32_t> with_ones, without;
    for (size_t d = 0; d < rank; ++d) {
      with_ones.push_back(reduced[d] ? 1 : x.shape[d]);
      if (!reduced[d]) without.push_back(x.shape[d]);
      (reduced[d] ? reduced_ : kept_).push_back({x.shape[d], {strides[d]}});
    }
    VPU_EXPECT(output.shape == with_ones || output.shape == without,
               "the output has shape %s, not %s nor %s", to_string(output.shape).c_str(),
               to_string(with_ones).c_str(), to_string(without).c_str());
    reduced_ = simplified(reduced_);
    kept_ = simplified(kept_);
    cells_ = size_of(reduced_);
    VPU_RETURN_IF_ERROR(expect_summable(cells_));
    if (!kept_.empty() && kept_.back().stride[0] == 1) channels_ = take_innermost(&kept_).size;
    columns_ = take_innermost(&reduced_);
    rows_ = take_innermost(&reduced_);
    return {};
  }

  void average(const int8_t* x, int8_t* y, int64_t n) const {
    int32_t sums[kSumBlock] = {};
    Walk<1> walk(reduced_, 0);
    for (int64_t window = size_of(reduced_); window > 0; --window, walk.next()) {
      isa_.sum({x + walk.offset(0), rows_.size, rows_.stride[0], columns_.size, columns_.stride[0]},
               sums, n);
    }
    isa_.scale(sums, y, n, static_cast<int32_t>(cells_) * zero_point_, static_cast<float>(cells_),
               multiplier_, store_);
  }

  const isa::Isa& isa_;
  Axes<1> kept_;
  Axes<1> reduced_;  // those beyond a window's
  Axis<1> rows_{1, {}};
  Axis<1> columns_{1, {}};
  int64_t channels_ = 1;
  int64_t cells_ = 1;
  float multiplier_ = 0;
  int32_t zero_point_ = 0;
  isa::Store store_{};
};

VPU_KERNEL(Mean, Mean::prepare);

}  // namespace
}  // namespace vpu
