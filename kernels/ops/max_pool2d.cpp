#include "ops/parallel.h"
#include "ops/windows.h"

namespace vpu {
namespace {

class MaxPool2d final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    auto pool = std::make_unique<MaxPool2d>(context.isa);
    VPU_RETURN_IF_ERROR(pool->pooling_.read(*context.instruction.op_as_MaxPool2d(), context));
    *kernel = std::move(pool);
    return {};
  }

  explicit MaxPool2d(const isa::Isa& isa) : isa_(isa) {}

  double work_per_output() const override { return 1 + pooling_.most_cells(); }

  void run(const RunContext& context) const override {
    const auto* x = context.input<int8_t>(0);
    parallel(context.workers, pooling_.output_rows(), pooling_.row_work(),
             [&](int, int64_t begin, int64_t end) {
               pooling_.for_each_output(
                   begin, end, [&](int64_t image, size_t i, size_t j, int64_t pixel) {
                     isa_.max(pooling_.window(x, image, i, j),
                              context.out<int8_t>() + pixel * pooling_.channels, pooling_.channels);
                   });
             });
  }

 private:
  const isa::Isa& isa_;
  Pooling pooling_;
};

VPU_KERNEL(MaxPool2d, MaxPool2d::prepare);

}  // namespace
}  // namespace vpu
