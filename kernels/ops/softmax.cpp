#include <algorithm>

#include "isa/micro_kernels.h"
#include "ops/axes.h"
#include "ops/check.h"
#include "ops/parallel.h"
#include "ops/store.h"

namespace vpu {
namespace {

class Softmax final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    const schema::Softmax& table = *context.instruction.op_as_Softmax();
    VPU_RETURN_IF_ERROR(expect_inputs(context, 2, 2));
    const TensorInfo& x = context.inputs[0];
    VPU_RETURN_IF_ERROR(expect_int8({&x, &context.output}));
    VPU_RETURN_IF_ERROR(expect_shape(context.output, "the output", x.shape));
    VPU_RETURN_IF_ERROR(expect_axis(table.axis(), x));
    VPU_RETURN_IF_ERROR(expect_multiplier(table.multiplier(), "the multiplier"));
    auto softmax = std::make_unique<Softmax>(context.isa);
    VPU_RETURN_IF_ERROR(read_exponentials(context.inputs[1], &softmax->exponentials_));
    const auto axis = static_cast<size_t>(table.axis());
    softmax->outer_ = product(x.shape, 0, axis);
    softmax->size_ = x.shape[axis];
    softmax->inner_ = product(x.shape, axis + 1, x.shape.size());
    softmax->multiplier_ = table.multiplier();
    softmax->store_ = store_to(context.output);
    *kernel = std::move(softmax);
    return {};
  }

  explicit Softmax(const isa::Isa& isa) : isa_(isa) {}

  size_t scratch_bytes() const override {
    return inner_ == 1 ? 0 : 2 * static_cast<size_t>(size_ * tile());
  }

  void run(const RunContext& context) const override {
    if (inner_ == 1) {
      parallel(context.workers, outer_, kElementWork * size_, [&](int, int64_t begin, int64_t end) {
        rows(context.input<int8_t>(0) + begin * size_, context.out<int8_t>() + begin * size_,
             end - begin);
      });
      return;
    }
    const int64_t tiles = (inner_ + tile() - 1) / tile();
    parallel(context.workers, outer_ * tiles, kElementWork * size_ * tile(),
             [&](int task, int64_t begin, int64_t end) {
               auto* scratch = reinterpret_cast<int8_t*>(
                   context.scratch + static_cast<size_t>(task) * align_up(scratch_bytes()));
               for (int64_t i = begin; i < end; ++i) {
                 const int64_t column = i % tiles * tile();
                 const int64_t offset = i / tiles * size_ * inner_ + column;
                 transposed(context.input<int8_t>(0) + offset, context.out<int8_t>() + offset,
                            std::min(tile(), inner_ - column), scratch);
               }
             });
  }

 private:
  static constexpr int64_t kElementWork = 4;  // an element costs so many of a simple loop's

  static Status read_exponentials(const TensorInfo& tensor, const int32_t** exponentials) {
    VPU_RETURN_IF_ERROR(
        expect_constant(tensor, "the table of exponentials", schema::DType_Int32, {256}));
    *exponentials = static_cast<const int32_t*>(tensor.constant);
    VPU_EXPECT((*exponentials)[0] > 0, "its exponential of 0 is %d", (*exponentials)[0]);
    for (int i = 0; i < 256; ++i) {
      VPU_EXPECT((*exponentials)[i] >= 0 && (*exponentials)[i] <= 1 << 23,
                 "its exponential %d is %d, not in [0, 2^23]", i, (*exponentials)[i]);
    }
    return {};
  }

  // Columns transposed at a time where the axis is not the innermost.
  int64_t tile() const {
    return std::min(inner_, std::clamp<int64_t>(16 * 1024 / size_ & ~7, 8, 512));
  }

  void rows(const int8_t* x, int8_t* y, int64_t count) const {
    for (int64_t i = 0; i < count; ++i, x += size_, y += size_) {
      isa_.softmax(x, y, size_, exponentials_, multiplier_, store_);
    }
  }

  void transposed(const int8_t* x, int8_t* y, int64_t columns, int8_t* scratch) const {
    int8_t* results = scratch + size_ * tile();
    isa_.transpose(x, inner_, scratch, size_, size_, columns);
    rows(scratch, results, columns);
    isa_.transpose(results, size_, y, inner_, columns, size_);
  }

  const isa::Isa& isa_;
  const int32_t* exponentials_ = nullptr;
  float multiplier_ = 0;
  int64_t outer_ = 1;
  int64_t size_ = 1;
  int64_t inner_ = 1;
  isa::Store store_{};
};

VPU_KERNEL(Softmax, Softmax::prepare);

}  // namespace
}  // namespace vpu
