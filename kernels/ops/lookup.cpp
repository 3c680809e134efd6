#include "isa/micro_kernels.h"
#include "ops/check.h"
#include "ops/parallel.h"

namespace vpu {
namespace {

class Lookup final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    VPU_RETURN_IF_ERROR(expect_inputs(context, 2, 2));
    const TensorInfo& x = context.inputs[0];
    const TensorInfo& table = context.inputs[1];
    VPU_RETURN_IF_ERROR(expect_int8({&x, &table, &context.output}));
    VPU_RETURN_IF_ERROR(expect_shape(table, "the table", {256}));
    VPU_RETURN_IF_ERROR(expect_shape(context.output, "the output", x.shape));
    *kernel = std::make_unique<Lookup>(context.isa, x.elements());
    return {};
  }

  Lookup(const isa::Isa& isa, int64_t elements) : isa_(isa), elements_(elements) {}

  void run(const RunContext& context) const override {
    const auto* x = context.input<int8_t>(0);
    parallel(context.workers, elements_, 1, [&](int, int64_t begin, int64_t end) {
      isa_.lookup(x + begin, context.out<int8_t>() + begin, end - begin, context.input<int8_t>(1));
    });
  }

 private:
  const isa::Isa& isa_;
  int64_t elements_;
};

VPU_KERNEL(Lookup, Lookup::prepare);

}  // namespace
}  // namespace vpu
