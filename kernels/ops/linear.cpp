#include "ops/axes.h"
#include "ops/row_product.h"

namespace vpu {
namespace {

Status prepare(const PrepareContext& context, KernelPtr* kernel) {
  WeightedOperands operands;
  VPU_RETURN_IF_ERROR(operands.read(context, *context.instruction.op_as_Linear()));
  const TensorInfo& x = context.inputs[0];
  VPU_RETURN_IF_ERROR(expect_rank(context.inputs[1], "the weight", 2));
  VPU_EXPECT(!x.shape.empty() && x.shape.back() == operands.per_channel,
             "x has shape %s, its last dimension not the weight's %lld", to_string(x.shape).c_str(),
             static_cast<long long>(operands.per_channel));
  std::vector<int32_t> shape = x.shape;
  shape.back() = static_cast<int32_t>(operands.channels);
  VPU_RETURN_IF_ERROR(expect_shape(context.output, "the output", shape));
  *kernel = std::make_unique<RowProduct>(context, operands, product(shape, 0, shape.size() - 1));
  return {};
}

VPU_KERNEL(Linear, prepare, Weighted::kResidual, WeightedOperands::kPacked);

}  // namespace
}  // namespace vpu
