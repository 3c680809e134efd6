#include "ops/dense_conv.h"
#include "ops/depthwise_conv.h"
#include "ops/row_product.h"

namespace vpu {
namespace {

Status prepare(const PrepareContext& context, KernelPtr* kernel) {
  const schema::Conv2d& conv = *context.instruction.op_as_Conv2d();
  WeightedOperands operands;
  VPU_RETURN_IF_ERROR(operands.read(context, conv));
  ConvGeometry geometry{};
  VPU_RETURN_IF_ERROR(geometry.read(conv, context));
  if (geometry.is_depthwise()) {
    *kernel = std::make_unique<DepthwiseConv>(context, geometry, operands);
  } else if (geometry.is_pointwise()) {
    *kernel = std::make_unique<RowProduct>(context, operands, geometry.pixels());
  } else {
    *kernel = std::make_unique<DenseConv>(context, geometry, operands);
  }
  return {};
}

VPU_KERNEL(Conv2d, prepare, Weighted::kResidual, WeightedOperands::kPacked);

}  // namespace
}  // namespace vpu
