#include <cstring>

#include "isa/micro_kernels.h"
#include "ops/permutation.h"

namespace vpu {
namespace {

class Transpose final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    VPU_RETURN_IF_ERROR(expect_inputs(context, 1, 1));
    VPU_RETURN_IF_ERROR(expect_int8({&context.inputs[0], &context.output}));
    auto transpose = std::make_unique<Transpose>(context.isa);
    VPU_RETURN_IF_ERROR(
        transpose->permutation_.prepare(context, context.instruction.op_as_Transpose()->perm()));
    *kernel = std::move(transpose);
    return {};
  }

  explicit Transpose(const isa::Isa& isa) : isa_(isa) {}

  void run(const RunContext& context) const override {
    permutation_.for_each_tile(context.workers, [&](int, const Permutation::Tile& tile) {
      const int8_t* x = context.input<int8_t>(0) + tile.x;
      int8_t* y = context.out<int8_t>() + tile.y;
      if (permutation_.transposes()) {
        isa_.transpose(x, permutation_.x_stride(), y, permutation_.y_stride(), tile.rows,
                       tile.columns);
      } else {
        std::memcpy(y, x, static_cast<size_t>(tile.columns));
      }
    });
  }

 private:
  const isa::Isa& isa_;
  Permutation permutation_;
};

VPU_KERNEL(Transpose, Transpose::prepare);

}  // namespace
}  // namespace vpu
