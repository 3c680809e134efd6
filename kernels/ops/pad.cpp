#include <algorithm>
#include <cstring>

#include "ops/axes.h"
#include "ops/check.h"
#include "ops/parallel.h"

namespace vpu {
namespace {

class Pad final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    const schema::Pad& table = *context.instruction.op_as_Pad();
    VPU_RETURN_IF_ERROR(expect_inputs(context, 1, 1));
    const TensorInfo& x = context.inputs[0];
    const TensorInfo& y = context.output;
    VPU_RETURN_IF_ERROR(expect_int8({&x, &y}));
    const size_t rank = x.shape.size();
    VPU_RETURN_IF_ERROR(expect_rank(y, "the output", rank));
    const std::vector<int32_t> before = values(context, table.before());
    VPU_EXPECT(before.size() == rank, "it pads %zu dimensions of %zu", before.size(), rank);
    auto pad = std::make_unique<Pad>();
    pad->value_ = table.value();
    pad->plan(x.shape, before, y.shape);
    *kernel = std::move(pad);
    return {};
  }

  void run(const RunContext& context) const override {
    parallel(context.workers, size_of(rows_), row_, [&](int, int64_t begin, int64_t end) {
      Walk<1> walk(rows_, begin);
      for (int64_t row = begin; row < end; ++row, walk.next()) {
        int8_t* y = context.out<int8_t>() + row * row_;
        if (inside_begin_ == inside_end_ || !is_inside(walk)) {
          std::memset(y, value_, static_cast<size_t>(row_));
          continue;
        }
        std::memset(y, value_, static_cast<size_t>(inside_begin_));
        std::memcpy(y + inside_begin_, context.input<int8_t>(0) + walk.offset(0) + skip_,
                    static_cast<size_t>(inside_end_ - inside_begin_));
        std::memset(y + inside_end_, value_, static_cast<size_t>(row_ - inside_end_));
      }
    });
  }

 private:
  // Which outputs along an axis come from the input.
  struct Range {
    int64_t begin;
    int64_t end;
  };

  // A row is the innermost dimension that changes, and all below it.
  void plan(const std::vector<int32_t>& x, std::vector<int32_t> before,
            const std::vector<int32_t>& y) {
    // What lies further out than this is all padding, or all cropped, just the same.
    for (size_t d = 0; d < x.size(); ++d) before[d] = std::clamp(before[d], -x[d], y[d]);
    size_t innermost = x.size();
    int64_t inner = 1;
    while (innermost > 0 && before[innermost - 1] == 0 && x[innermost - 1] == y[innermost - 1]) {
      inner *= y[--innermost];
    }
    const std::vector<int64_t> strides = strides_of(x);
    for (size_t d = 0; d < innermost; ++d) {
      const Range range{std::clamp<int64_t>(before[d], 0, y[d]),
                        std::clamp<int64_t>(int64_t{before[d]} + x[d], 0, y[d])};
      if (d + 1 < innermost) {
        rows_.push_back({y[d], {strides[d]}});
        inside_.push_back(range);
        origin_ += before[d] * strides[d];
      } else {
        row_ = y[d] * inner;
        inside_begin_ = range.begin * inner;
        inside_end_ = range.end * inner;
        origin_ += before[d] * strides[d];
      }
    }
    if (innermost == 0) row_ = inside_end_ = inner;
    skip_ = inside_begin_ - origin_;
  }

  bool is_inside(const Walk<1>& walk) const {
    for (size_t d = 0; d < inside_.size(); ++d) {
      if (walk.index(d) < inside_[d].begin || walk.index(d) >= inside_[d].end) return false;
    }
    return true;
  }

  int8_t value_ = 0;
  Axes<1> rows_;               // the output's, walked with the input's strides
  std::vector<Range> inside_;  // of rows_
  int64_t row_ = 1;
  int64_t inside_begin_ = 0;  // of a row, what comes from the input
  int64_t inside_end_ = 0;
  int64_t origin_ = 0;  // where output 0 would be, before the input's first element
  int64_t skip_ = 0;    // from where a row would begin in the input to what is inside
};

VPU_KERNEL(Pad, Pad::prepare);

}  // namespace
}  // namespace vpu
