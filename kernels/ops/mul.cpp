#include "ops/binary.h"

namespace vpu {
namespace {

Status prepare(const PrepareContext& context, KernelPtr* kernel) {
  const schema::Mul& mul = *context.instruction.op_as_Mul();
  return Binary::prepare(context, mul, context.isa.mul, mul.multiplier(), 1.0f, kernel);
}

VPU_KERNEL(Mul, prepare);

}  // namespace
}  // namespace vpu
