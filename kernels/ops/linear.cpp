#include "ops/axes.h"
#include "ops/row_product.h"

namespace vpu {
namespace {

Status prepare(const PrepareContext& context, KernelPtr* kernel) {
  Weighted weighted;
  VPU_RETURN_IF_ERROR(weighted.read(context, *context.instruction.op_as_Linear()));
  const TensorInfo& x = context.inputs[0];
  VPU_RETURN_IF_ERROR(expect_rank(context.inputs[1], "the weight", 2));
  VPU_EXPECT(!x.shape.empty() && x.shape.back() == weighted.per_channel,
             "x has shape %s, its last dimension not the weight's %lld", to_string(x.shape).c_str(),
             static_cast<long long>(weighted.per_channel));
  std::vector<int32_t> shape = x.shape;
  shape.back() = static_cast<int32_t>(weighted.channels);
  VPU_RETURN_IF_ERROR(expect_shape(context.output, "the output", shape));
  *kernel =
      std::make_unique<RowProduct>(context.isa, weighted, product(shape, 0, shape.size() - 1));
  return {};
}

VPU_KERNEL(Linear, prepare, Weighted::kResidual);

}  // namespace
}  // namespace vpu
