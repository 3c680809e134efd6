#include "ops/binary.h"

namespace vpu {
namespace {

Status prepare(const PrepareContext& context, KernelPtr* kernel) {
  const schema::Add& add = *context.instruction.op_as_Add();
  return Binary::prepare(context, add, context.isa.add, add.a_multiplier(), add.b_multiplier(),
                         kernel);
}

VPU_KERNEL(Add, prepare);

}  // namespace
}  // namespace vpu
