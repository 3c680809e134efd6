#include "ops/dense_conv.h"
#include "ops/depthwise_conv.h"
#include "ops/row_product.h"

namespace vpu {
namespace {

Status prepare(const PrepareContext& context, KernelPtr* kernel) {
  const schema::Conv2d& conv = *context.instruction.op_as_Conv2d();
  Weighted weighted;
  VPU_RETURN_IF_ERROR(weighted.read(context, conv));
  ConvGeometry geometry{};
  VPU_RETURN_IF_ERROR(geometry.read(conv, context));
  if (geometry.is_depthwise()) {
    *kernel = std::make_unique<DepthwiseConv>(context.isa, geometry, weighted);
  } else if (geometry.is_pointwise()) {
    *kernel = std::make_unique<RowProduct>(context.isa, weighted, geometry.pixels());
  } else {
    *kernel = std::make_unique<DenseConv>(context.isa, geometry, weighted);
  }
  return {};
}

VPU_KERNEL(Conv2d, prepare, Weighted::kResidual);

}  // namespace
}  // namespace vpu
