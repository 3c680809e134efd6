#include <cstring>

#include "isa/micro_kernels.h"
#include "ops/axes.h"
#include "ops/check.h"
#include "ops/parallel.h"

namespace vpu {
namespace {

class Concat final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    const schema::Concat& table = *context.instruction.op_as_Concat();
    VPU_RETURN_IF_ERROR(expect_inputs(context, 1, std::numeric_limits<size_t>::max()));
    const TensorInfo& y = context.output;
    VPU_RETURN_IF_ERROR(expect_int8({&y}));
    VPU_RETURN_IF_ERROR(expect_axis(table.axis(), y));
    const auto axis = static_cast<size_t>(table.axis());
    const std::vector<int32_t> tables = values(context, table.tables());
    VPU_EXPECT(tables.size() == context.inputs.size(), "it has %zu tables for %zu parts",
               tables.size(), context.inputs.size());

    auto concat = std::make_unique<Concat>(context.isa);
    const int64_t inner = product(y.shape, axis + 1, y.shape.size());
    concat->outer_ = product(y.shape, 0, axis);
    concat->row_ = y.shape[axis] * inner;
    int64_t offset = 0;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      const TensorInfo& x = context.inputs[i];
      VPU_RETURN_IF_ERROR(expect_int8({&x}));
      VPU_RETURN_IF_ERROR(expect_rank(x, "a part", y.shape.size()));
      std::vector<int32_t> shape = y.shape;
      shape[axis] = x.shape[axis];
      VPU_RETURN_IF_ERROR(expect_shape(x, "a part", shape));
      const int8_t* requantize = nullptr;
      if (tables[i] != -1) VPU_RETURN_IF_ERROR(find_table(context, tables[i], &requantize));
      concat->parts_.push_back({offset, x.shape[axis] * inner, requantize});
      offset += x.shape[axis] * inner;
    }
    VPU_EXPECT(offset == concat->row_, "its parts do not add up to the output %s",
               to_string(y.shape).c_str());
    *kernel = std::move(concat);
    return {};
  }

  explicit Concat(const isa::Isa& isa) : isa_(isa) {}

  // A unit is one part's piece of one row of the output.
  void run(const RunContext& context) const override {
    const auto parts = static_cast<int64_t>(parts_.size());
    parallel(context.workers, outer_ * parts, row_ / parts + 1,
             [&](int, int64_t begin, int64_t end) {
               int64_t row = begin / parts;
               auto i = static_cast<size_t>(begin % parts);
               for (int64_t unit = begin; unit < end; ++unit) {
                 const Part& part = parts_[i];
                 const int8_t* x = context.input<int8_t>(i) + row * part.size;
                 int8_t* y = context.out<int8_t>() + row * row_ + part.offset;
                 if (part.table != nullptr) {
                   isa_.lookup(x, y, part.size, part.table);
                 } else {
                   std::memcpy(y, x, static_cast<size_t>(part.size));
                 }
                 if (++i == parts_.size()) {
                   i = 0;
                   ++row;
                 }
               }
             });
  }

 private:
  struct Part {
    int64_t offset;  // in a row
    int64_t size;
    const int8_t* table;  // null: a plain copy
  };

  static Status find_table(const PrepareContext& context, int32_t index, const int8_t** table) {
    const TensorInfo* tensor = context.tensor(index);
    VPU_EXPECT(tensor != nullptr, "it names tensor %d, which does not exist", index);
    VPU_RETURN_IF_ERROR(expect_constant(*tensor, "a table", schema::DType_Int8, {256}));
    *table = static_cast<const int8_t*>(tensor->constant);
    return {};
  }

  const isa::Isa& isa_;
  int64_t outer_ = 1;
  int64_t row_ = 1;  // elements of the output along the axis and below it
  std::vector<Part> parts_;
};

VPU_KERNEL(Concat, Concat::prepare);

}  // namespace
}  // namespace vpu
