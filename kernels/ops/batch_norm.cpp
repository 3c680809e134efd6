#include "isa/micro_kernels.h"
#include "ops/axes.h"
#include "ops/check.h"
#include "ops/parallel.h"
#include "ops/store.h"

namespace vpu {
namespace {

class BatchNorm final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    const schema::BatchNorm& table = *context.instruction.op_as_BatchNorm();
    VPU_RETURN_IF_ERROR(expect_inputs(context, 3, 3));
    const TensorInfo& x = context.inputs[0];
    VPU_RETURN_IF_ERROR(expect_int8({&x, &context.output}));
    VPU_RETURN_IF_ERROR(expect_shape(context.output, "the output", x.shape));
    VPU_RETURN_IF_ERROR(expect_axis(table.axis(), x));
    const auto axis = static_cast<size_t>(table.axis());
    auto norm = std::make_unique<BatchNorm>(context.isa);
    VPU_RETURN_IF_ERROR(
        read(context.inputs[1], "the multiplier", x.shape[axis], &norm->multiplier_));
    VPU_RETURN_IF_ERROR(read(context.inputs[2], "the offset", x.shape[axis], &norm->offset_));
    VPU_RETURN_IF_ERROR(read_store(table, context.output, &norm->store_));
    norm->zero_point_ = x.zero_point;
    norm->channels_ = x.shape[axis];
    norm->outer_ = product(x.shape, 0, axis);
    norm->inner_ = product(x.shape, axis + 1, x.shape.size());
    *kernel = std::move(norm);
    return {};
  }

  explicit BatchNorm(const isa::Isa& isa) : isa_(isa) {}

  void run(const RunContext& context) const override {
    const auto* x = context.input<int8_t>(0);
    auto* y = context.out<int8_t>();
    if (inner_ == 1) {
      parallel(context.workers, outer_, channels_, [&](int, int64_t begin, int64_t end) {
        for (int64_t i = begin * channels_; i < end * channels_; i += channels_) {
          isa_.affine(x + i, y + i, channels_, zero_point_, multiplier_, offset_, 1, store_);
        }
      });
      return;
    }
    parallel(context.workers, outer_ * channels_, inner_, [&](int, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = i % channels_;
        isa_.affine(x + i * inner_, y + i * inner_, inner_, zero_point_, multiplier_ + c,
                    offset_ + c, 0, store_);
      }
    });
  }

 private:
  static Status read(const TensorInfo& tensor, const char* name, int32_t channels,
                     const float** values) {
    VPU_RETURN_IF_ERROR(expect_constant(tensor, name, schema::DType_Float32, {channels}));
    *values = static_cast<const float*>(tensor.constant);
    for (int32_t c = 0; c < channels; ++c) {
      VPU_RETURN_IF_ERROR(expect_multiplier((*values)[c], name));
    }
    return {};
  }

  const isa::Isa& isa_;
  const float* multiplier_ = nullptr;
  const float* offset_ = nullptr;
  int64_t outer_ = 1;
  int64_t channels_ = 1;
  int64_t inner_ = 1;
  int32_t zero_point_ = 0;
  isa::Store store_{};
};

VPU_KERNEL(BatchNorm, BatchNorm::prepare);

}  // namespace
}  // namespace vpu
