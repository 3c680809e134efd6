#include "ops/average.h"
#include "ops/parallel.h"
#include "ops/store.h"
#include "ops/windows.h"

namespace vpu {
namespace {

class AvgPool2d final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    const schema::AvgPool2d& table = *context.instruction.op_as_AvgPool2d();
    auto pool = std::make_unique<AvgPool2d>(context.isa);
    Pooling& pooling = pool->pooling_;
    VPU_RETURN_IF_ERROR(pooling.read(table, context));
    VPU_RETURN_IF_ERROR(expect_summable(pooling.rows.most_cells() * pooling.columns.most_cells()));
    VPU_RETURN_IF_ERROR(
        read_divisors(context, table.row_divisor(), pooling.rows, "row", &pool->row_divisor_));
    VPU_RETURN_IF_ERROR(read_divisors(context, table.column_divisor(), pooling.columns, "column",
                                      &pool->column_divisor_));
    VPU_RETURN_IF_ERROR(expect_multiplier(table.multiplier(), "the multiplier"));
    VPU_RETURN_IF_ERROR(read_store(table, context.output, &pool->store_));
    pool->multiplier_ = table.multiplier();
    pool->zero_point_ = context.inputs[0].zero_point;
    *kernel = std::move(pool);
    return {};
  }

  explicit AvgPool2d(const isa::Isa& isa) : isa_(isa) {}

  double work_per_output() const override { return 1 + pooling_.most_cells(); }

  void run(const RunContext& context) const override {
    const auto* x = context.input<int8_t>(0);
    parallel(context.workers, pooling_.output_rows(), pooling_.row_work(),
             [&](int, int64_t begin, int64_t end) {
               pooling_.for_each_output(
                   begin, end, [&](int64_t image, size_t i, size_t j, int64_t pixel) {
                     average(pooling_.window(x, image, i, j),
                             int64_t{row_divisor_[i]} * column_divisor_[j],
                             context.out<int8_t>() + pixel * pooling_.channels);
                   });
             });
  }

 private:
  static Status read_divisors(const PrepareContext& context,
                              const flatbuffers::Vector<int32_t>* vector, const Windows& windows,
                              const char* name, std::vector<int32_t>* divisors) {
    *divisors = values(context, vector);
    VPU_EXPECT(divisors->size() == windows.begin.size(), "it has %zu %s divisors for %zu windows",
               divisors->size(), name, windows.begin.size());
    for (const int32_t divisor : *divisors) {
      VPU_EXPECT(divisor >= 1, "it divides by %d", divisor);
    }
    return {};
  }

  void average(isa::Window window, int64_t divisor, int8_t* y) const {
    const auto cells = static_cast<int32_t>(window.rows * window.columns);
    for (int64_t c = 0; c < pooling_.channels; c += kSumBlock, window.x += kSumBlock) {
      const int64_t n = std::min(kSumBlock, pooling_.channels - c);
      int32_t sums[kSumBlock] = {};
      isa_.sum(window, sums, n);
      isa_.scale(sums, y + c, n, cells * zero_point_, static_cast<float>(divisor), multiplier_,
                 store_);
    }
  }

  const isa::Isa& isa_;
  Pooling pooling_;
  std::vector<int32_t> row_divisor_;
  std::vector<int32_t> column_divisor_;
  float multiplier_ = 0;
  int32_t zero_point_ = 0;
  isa::Store store_{};
};

VPU_KERNEL(AvgPool2d, AvgPool2d::prepare);

}  // namespace
}  // namespace vpu
