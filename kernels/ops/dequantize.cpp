#include "isa/micro_kernels.h"
#include "ops/permutation.h"

namespace vpu {
namespace {

class Dequantize final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    const schema::Dequantize& table = *context.instruction.op_as_Dequantize();
    VPU_RETURN_IF_ERROR(expect_inputs(context, 1, 1));
    const TensorInfo& x = context.inputs[0];
    VPU_RETURN_IF_ERROR(expect_type(x, "x", schema::DType_Int8));
    VPU_RETURN_IF_ERROR(expect_type(context.output, "the output", schema::DType_Float32));
    VPU_RETURN_IF_ERROR(expect_multiplier(table.scale(), "scale"));
    auto dequantize = std::make_unique<Dequantize>(context.isa);
    VPU_RETURN_IF_ERROR(dequantize->permutation_.prepare(context, table.perm()));
    dequantize->scale_ = table.scale();
    dequantize->zero_point_ = x.zero_point;
    *kernel = std::move(dequantize);
    return {};
  }

  explicit Dequantize(const isa::Isa& isa) : isa_(isa) {}

  size_t scratch_bytes() const override {
    return permutation_.transposes() ? Permutation::kTileElements : 0;
  }

  // Transposes before it dequantizes, so that only bytes are moved about.
  void run(const RunContext& context) const override {
    permutation_.for_each_tile(context.workers, [&](int task, const Permutation::Tile& tile) {
      const int8_t* x = context.input<int8_t>(0) + tile.x;
      float* y = context.out<float>() + tile.y;
      if (!permutation_.transposes()) {
        isa_.dequantize(x, y, tile.columns, zero_point_, scale_);
        return;
      }
      auto* columns = reinterpret_cast<int8_t*>(context.scratch + static_cast<size_t>(task) *
                                                                      align_up(scratch_bytes()));
      isa_.transpose(x, permutation_.x_stride(), columns, tile.rows, tile.rows, tile.columns);
      const bool dense = permutation_.y_stride() == tile.rows;
      const int64_t runs = dense ? 1 : tile.columns;
      const int64_t run = dense ? tile.rows * tile.columns : tile.rows;
      for (int64_t j = 0; j < runs; ++j) {
        isa_.dequantize(columns + j * run, y + j * permutation_.y_stride(), run, zero_point_,
                        scale_);
      }
    });
  }

 private:
  const isa::Isa& isa_;
  Permutation permutation_;
  float scale_ = 0;
  int32_t zero_point_ = 0;
};

VPU_KERNEL(Dequantize, Dequantize::prepare);

}  // namespace
}  // namespace vpu
