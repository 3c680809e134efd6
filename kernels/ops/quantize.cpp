#include "isa/micro_kernels.h"
#include "ops/permutation.h"
#include "ops/store.h"

namespace vpu {
namespace {

class Quantize final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    const schema::Quantize& table = *context.instruction.op_as_Quantize();
    VPU_RETURN_IF_ERROR(expect_inputs(context, 1, 1));
    const TensorInfo& x = context.inputs[0];
    VPU_RETURN_IF_ERROR(expect_type(x, "x", schema::DType_Float32));
    VPU_RETURN_IF_ERROR(expect_type(context.output, "the output", schema::DType_Int8));
    VPU_RETURN_IF_ERROR(expect_multiplier(table.inv_scale(), "inv_scale"));
    auto quantize = std::make_unique<Quantize>(context.isa);
    VPU_RETURN_IF_ERROR(quantize->permutation_.prepare(context, table.perm()));
    quantize->inv_scale_ = table.inv_scale();
    quantize->store_ = store_to(context.output);
    *kernel = std::move(quantize);
    return {};
  }

  explicit Quantize(const isa::Isa& isa) : isa_(isa) {}

  size_t scratch_bytes() const override {
    return permutation_.transposes() ? Permutation::kTileElements : 0;
  }

  // Quantizes before it transposes, so that only bytes are moved about.
  void run(const RunContext& context) const override {
    permutation_.for_each_tile(context.workers, [&](int task, const Permutation::Tile& tile) {
      const float* x = context.input<float>(0) + tile.x;
      int8_t* y = context.out<int8_t>() + tile.y;
      if (!permutation_.transposes()) {
        isa_.quantize(x, y, tile.columns, inv_scale_, store_);
        return;
      }
      auto* rows = reinterpret_cast<int8_t*>(context.scratch +
                                             static_cast<size_t>(task) * align_up(scratch_bytes()));
      const bool dense = permutation_.x_stride() == tile.columns;
      const int64_t runs = dense ? 1 : tile.rows;
      const int64_t run = dense ? tile.rows * tile.columns : tile.columns;
      for (int64_t i = 0; i < runs; ++i) {
        isa_.quantize(x + i * permutation_.x_stride(), rows + i * run, run, inv_scale_, store_);
      }
      isa_.transpose(rows, tile.columns, y, permutation_.y_stride(), tile.rows, tile.columns);
    });
  }

 private:
  const isa::Isa& isa_;
  Permutation permutation_;
  float inv_scale_ = 0;
  isa::Store store_{};
};

VPU_KERNEL(Quantize, Quantize::prepare);

}  // namespace
}  // namespace vpu
