// Element-by-element instructions of two operands: Add and Mul.
#pragma once

#include "isa/micro_kernels.h"
#include "ops/broadcast.h"
#include "ops/parallel.h"
#include "ops/store.h"

namespace vpu {

// Runs an Isa's binary loop over the output's rows.
class Binary final : public Kernel {
 public:
  using Loop = void (*)(const isa::Operand&, const isa::Operand&, int8_t*, int64_t,
                        const isa::Store&);

  template <class Table>
  static Status prepare(const PrepareContext& context, const Table& table, Loop loop,
                        float a_multiplier, float b_multiplier, KernelPtr* kernel) {
    VPU_RETURN_IF_ERROR(expect_inputs(context, 2, 2));
    const TensorInfo& a = context.inputs[0];
    const TensorInfo& b = context.inputs[1];
    VPU_RETURN_IF_ERROR(expect_int8({&a, &b, &context.output}));
    const size_t rank = context.output.shape.size();
    VPU_RETURN_IF_ERROR(expect_rank(a, "a", rank));
    VPU_RETURN_IF_ERROR(expect_rank(b, "b", rank));
    Axes<2> axes;
    VPU_RETURN_IF_ERROR(broadcast(a, b, context.output.shape, rank, &axes));
    auto binary = std::make_unique<Binary>();
    VPU_RETURN_IF_ERROR(read_store(table, context.output, &binary->store_));
    VPU_RETURN_IF_ERROR(expect_multiplier(a_multiplier, "a multiplier"));
    VPU_RETURN_IF_ERROR(expect_multiplier(b_multiplier, "a multiplier"));
    binary->rows_ = simplified(axes);
    binary->row_ = take_innermost(&binary->rows_);
    binary->loop_ = loop;
    binary->a_ = {nullptr, static_cast<int>(binary->row_.stride[0]), a.zero_point, a_multiplier};
    binary->b_ = {nullptr, static_cast<int>(binary->row_.stride[1]), b.zero_point, b_multiplier};
    *kernel = std::move(binary);
    return {};
  }

  void run(const RunContext& context) const override {
    if (rows_.empty()) return run_one_row(context);
    parallel(context.workers, size_of(rows_), row_.size, [&](int, int64_t begin, int64_t end) {
      isa::Operand a = a_, b = b_;
      int8_t* y = context.out<int8_t>() + begin * row_.size;
      Walk<2> walk(rows_, begin);
      for (int64_t row = begin; row < end; ++row, walk.next(), y += row_.size) {
        a.x = context.input<int8_t>(0) + walk.offset(0);
        b.x = context.input<int8_t>(1) + walk.offset(1);
        loop_(a, b, y, row_.size, store_);
      }
    });
  }

 private:
  void run_one_row(const RunContext& context) const {
    parallel(context.workers, row_.size, 1, [&](int, int64_t begin, int64_t end) {
      isa::Operand a = a_, b = b_;
      a.x = context.input<int8_t>(0) + begin * a.step;
      b.x = context.input<int8_t>(1) + begin * b.step;
      loop_(a, b, context.out<int8_t>() + begin, end - begin, store_);
    });
  }

  Loop loop_;
  isa::Operand a_;
  isa::Operand b_;
  isa::Store store_;
  Axes<2> rows_;
  Axis<2> row_;  // the innermost axis: a dense run of the output, each operand's step 0 or 1
};

}  // namespace vpu
