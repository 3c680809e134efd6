#include "cost.h"

#include <algorithm>

namespace vpu::fuzz {
namespace {

double cells(const schema::WindowsT* windows) {
  double sum = 0;
  const size_t count =
      windows == nullptr ? 0 : std::min(windows->begin.size(), windows->end.size());
  for (size_t i = 0; i < count; ++i) {
    sum += std::max(0.0, double{1} * windows->end[i] - windows->begin[i]);
  }
  return sum;
}

double last(const Shape& shape) { return shape.empty() ? 1 : shape.back(); }
double first(const Shape& shape) { return shape.empty() ? 1 : shape.front(); }

double volume(const schema::TensorT& tensor) { return elements_of(tensor.shape); }

// Products of the outputs with so many values each. Sets pad both to whole vectors and tiles.
double products(const Shape& y, double values) {
  return elements_of(y) / std::max(last(y), 1.0) * (last(y) + 15) * (values + 63);
}

// What a convolution pads of its input: rows by columns by channels.
double padded(const schema::Conv2dT& conv, const Shape& x, const Shape& weight, const Shape& y) {
  if (x.size() != 4 || weight.size() != 4 || y.size() != 4) return 0;
  const double columns = double{1} * y[2] * conv.stride_w +
                         double{1} * weight[2] * conv.dilation_w + conv.pad_left + x[2];
  return double{1} * y[0] * y[1] * columns * (weight[1] + double{1}) * x[3];
}

template <class Pool>
double pooled(const Pool& pool, const Shape& x) {
  if (x.size() != 4) return 0;
  return double{1} * x[0] * x[3] * cells(pool.rows.get()) * cells(pool.columns.get());
}

}  // namespace

Cost cost_of(const Case& c) {
  Cost cost;
  cost.bytes = static_cast<double>(c.program.arena_size);
  for (const auto& tensor : c.program.tensors) {
    cost.bytes += volume(*tensor) * static_cast<double>(element_bytes(tensor->dtype));
  }
  for (const auto& instruction : c.program.instructions) {
    const size_t count = c.program.tensors.size();
    if (instruction->output >= count) continue;
    const Shape& y = c.tensor(instruction->output).shape;
    cost.work += elements_of(y);
    std::vector<const Shape*> x;
    for (const uint32_t input : instruction->inputs) {
      if (input >= count) continue;
      x.push_back(&c.tensor(input).shape);
      cost.work += elements_of(*x.back());
    }
    const schema::OpUnion& op = instruction->op;
    if (x.empty()) continue;
    if (const auto* pool = op.AsMaxPool2d()) cost.work += pooled(*pool, *x[0]);
    if (const auto* pool = op.AsAvgPool2d()) cost.work += pooled(*pool, *x[0]);
    if (x.size() < 2) continue;
    if (const auto* conv = op.AsConv2d()) {
      const double seen = padded(*conv, *x[0], *x[1], y);
      cost.work += products(y, elements_of(*x[1]) / std::max(first(*x[1]), 1.0)) + seen;
      cost.bytes += 8 * seen + 64 * elements_of(*x[1]);
    } else if (op.AsLinear() != nullptr || op.AsMatMul() != nullptr) {
      cost.work += products(y, last(*x[0]));
      cost.bytes += 64 * elements_of(*x[1]);
    }
  }
  return cost;
}

}  // namespace vpu::fuzz
