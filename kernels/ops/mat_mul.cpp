#include "ops/broadcast.h"
#include "ops/gemm.h"
#include "ops/parallel.h"
#include "ops/store.h"

namespace vpu {
namespace {

// The micro-kernel sums (a + offset) * b; the zero points are worked into biases:
//   sum (a - za) * (b - zb) = sum (a + offset) * b
//                             - (za + offset) * sum_k b + k * za * zb     per column
//                             - zb * sum_k a                              per row
class MatMul final : public Kernel {
 public:
  static Status prepare(const PrepareContext& context, KernelPtr* kernel) {
    const schema::MatMul& table = *context.instruction.op_as_MatMul();
    VPU_RETURN_IF_ERROR(expect_inputs(context, 2, 2));
    const TensorInfo& a = context.inputs[0];
    const TensorInfo& b = context.inputs[1];
    const TensorInfo& y = context.output;
    VPU_RETURN_IF_ERROR(expect_int8({&a, &b, &y}));
    const size_t rank = y.shape.size();
    VPU_EXPECT(rank >= 2, "the output is of rank %zu", rank);
    VPU_RETURN_IF_ERROR(expect_rank(a, "a", rank));
    VPU_RETURN_IF_ERROR(expect_rank(b, "b", rank));
    const int32_t m = a.shape[rank - 2], k = a.shape[rank - 1], n = b.shape[rank - 1];
    VPU_EXPECT(b.shape[rank - 2] == k && y.shape[rank - 2] == m && y.shape[rank - 1] == n,
               "%s times %s does not give %s", to_string(a.shape).c_str(),
               to_string(b.shape).c_str(), to_string(y.shape).c_str());
    VPU_EXPECT(k <= kInt32Max / (kMaxCentered * kMaxCentered),
               "an int32 may not hold its sum of %d products", k);
    VPU_RETURN_IF_ERROR(expect_multiplier(table.multiplier(), "the multiplier"));
    auto matmul = std::make_unique<MatMul>(context.isa, m, k, n);
    VPU_RETURN_IF_ERROR(broadcast(a, b, y.shape, rank - 2, &matmul->matrices_));
    matmul->matrices_ = simplified(matmul->matrices_);
    VPU_RETURN_IF_ERROR(read_store(table, y, &matmul->store_));
    matmul->fits_int_ =
        std::abs(double{table.multiplier()}) * k * kMaxCentered * kMaxCentered < 2e9;
    matmul->a_zero_point_ = a.zero_point;
    matmul->b_zero_point_ = b.zero_point;
    const int64_t columns = matmul->panels_.padded_columns();
    matmul->multiplier_ = context.memory.pack<float>(
        columns, [&](float* values) { std::fill_n(values, columns, table.multiplier()); });
    *kernel = std::move(matmul);
    return {};
  }

  MatMul(const isa::Isa& isa, int64_t rows, int64_t k, int64_t columns)
      : isa_(isa),
        panels_(isa, 1, k, columns),
        rows_(rows),
        block_rows_(panels_.block_rows(rows)) {}

  size_t scratch_bytes() const override { return Scratch(*this, nullptr).bytes; }
  int64_t macs_per_output() const override { return panels_.k; }

  // A unit is a tile of rows of one matrix. A task packs every B that it meets.
  void run(const RunContext& context) const override {
    const int64_t tile = isa_.gemm_tile.mr;
    const int64_t tiles = ceil_div(rows_, tile);
    const int64_t unit_work = tile * panels_.padded_k() * panels_.padded_columns() / 8 + 1;
    parallel(context.workers, size_of(matrices_) * tiles, unit_work,
             [&](int task, int64_t begin, int64_t end) {
               const Scratch scratch(
                   *this, context.scratch + static_cast<size_t>(task) * align_up(scratch_bytes()));
               Walk<2> walk(matrices_, begin / tiles);
               const int8_t* packed = nullptr;
               for (int64_t unit = begin; unit < end; walk.next()) {
                 const int64_t matrix = unit / tiles;
                 const int64_t first = unit - matrix * tiles;
                 const int64_t last = std::min(tiles, first + end - unit);
                 const int8_t* b = context.input<int8_t>(1) + walk.offset(1);
                 if (b != packed) pack_b(b, scratch);
                 packed = b;
                 multiply_rows(context.input<int8_t>(0) + walk.offset(0), first * tile,
                               std::min(last * tile, rows_), scratch,
                               context.out<int8_t>() + matrix * rows_ * panels_.columns);
                 unit += last - first;
               }
             });
  }

 private:
  // How a task's scratch is divided.
  struct Scratch {
    std::byte* a;
    int8_t* b;
    int32_t* bias;
    int32_t* row_bias;
    size_t bytes = 0;

    Scratch(const MatMul& matmul, std::byte* memory) {
      const Panels& panels = matmul.panels_;
      const auto take = [&](int64_t size) {
        std::byte* piece = memory == nullptr ? nullptr : memory + bytes;
        bytes += align_up(static_cast<size_t>(size));
        return piece;
      };
      a = take(matmul.block_rows_ * panels.a_stride());
      b = reinterpret_cast<int8_t*>(take(panels.bytes()));
      bias = reinterpret_cast<int32_t*>(take(panels.padded_columns() * 4));
      row_bias = reinterpret_cast<int32_t*>(take(matmul.block_rows_ * 4));
    }
  };

  void pack_b(const int8_t* b, const Scratch& scratch) const {
    const int64_t n = panels_.columns;
    panels_.pack(b, n, 1, scratch.b);
    std::fill_n(scratch.bias, panels_.padded_columns(), 0);
    isa_.sum({b, panels_.k, n, 1, 0}, scratch.bias, n);
    const auto a_offset = static_cast<uint32_t>(a_zero_point_ + isa_.gemm_tile.a_offset);
    const auto constant = static_cast<uint32_t>(panels_.k * a_zero_point_ * b_zero_point_);
    for (int64_t j = 0; j < n; ++j) {
      const auto sum = static_cast<uint32_t>(scratch.bias[j]);
      scratch.bias[j] = static_cast<int32_t>(constant - a_offset * sum);
    }
  }

  void multiply_rows(const int8_t* a, int64_t begin, int64_t end, const Scratch& scratch,
                     int8_t* y) const {
    isa::Gemm block{};
    block.a = scratch.a;
    block.a_stride = panels_.a_stride();
    block.b = scratch.b;
    block.runs = kOneRun;
    block.run_count = 1;
    block.k = panels_.padded_run;
    block.row_bias = b_zero_point_ == 0 ? nullptr : scratch.row_bias;
    block.bias = scratch.bias;
    block.multiplier = multiplier_;
    block.y_stride = panels_.columns;
    block.store = store_;
    block.fits_int = fits_int_;
    for (int64_t row = begin; row < end; row += block_rows_) {
      const int64_t count = std::min(block_rows_, end - row);
      const int8_t* x = a + row * panels_.k;
      isa_.pack_a(scratch.a, panels_.a_stride(), x, panels_.k, count, panels_.k);
      if (block.row_bias != nullptr) {
        for (int64_t i = 0; i < count; ++i) {
          int32_t sum = 0;
          isa_.sum({x + i * panels_.k, 1, 0, panels_.k, 1}, &sum, 1);
          scratch.row_bias[i] = -b_zero_point_ * sum;
        }
      }
      block.y = y + row * panels_.columns;
      block.rows = count;
      multiply(panels_, block, 0, panels_.count);
    }
  }

  const isa::Isa& isa_;
  Panels panels_;
  int64_t rows_;
  int64_t block_rows_;
  Axes<2> matrices_;                   // the leading dimensions
  const float* multiplier_ = nullptr;  // of each column
  int32_t a_zero_point_ = 0;
  int32_t b_zero_point_ = 0;
  isa::Store store_{};
  bool fits_int_ = false;  // what is stored, before it is clamped
};

VPU_KERNEL(MatMul, MatMul::prepare);

}  // namespace
}  // namespace vpu
