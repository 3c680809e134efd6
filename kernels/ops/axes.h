// Index spaces of any rank, brought down to the few axes that matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "vpu/kernel.h"

namespace vpu {

// An axis that several operands are walked along together: how far each moves for one step.
template <size_t operands>
struct Axis {
  int64_t size;
  std::array<int64_t, operands> stride;
};

// Outermost first.
template <size_t operands>
using Axes = std::vector<Axis<operands>>;

inline int64_t product(const std::vector<int32_t>& shape, size_t begin, size_t end) {
  int64_t result = 1;
  for (size_t d = begin; d < end; ++d) result *= shape[d];
  return result;
}

// Of a dense row-major tensor.
inline std::vector<int64_t> strides_of(const std::vector<int32_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) strides[d] = stride;
  return strides;
}

// Without the axes of size 1, and with neighbours merged that every operand walks as one.
template <size_t operands>
Axes<operands> simplified(const Axes<operands>& axes) {
  Axes<operands> result;
  for (const Axis<operands>& axis : axes) {
    if (axis.size == 1) continue;
    bool merges = !result.empty();
    for (size_t i = 0; merges && i < operands; ++i) {
      merges = result.back().stride[i] == axis.stride[i] * axis.size;
    }
    if (merges) {
      result.back().size *= axis.size;
      result.back().stride = axis.stride;
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

template <size_t operands>
int64_t size_of(const Axes<operands>& axes) {
  int64_t size = 1;
  for (const Axis<operands>& axis : axes) size *= axis.size;
  return size;
}

// Takes the innermost axis off; one of size 1 and no steps if there is none.
template <size_t operands>
Axis<operands> take_innermost(Axes<operands>* axes) {
  if (axes->empty()) return {1, {}};
  const Axis<operands> innermost = axes->back();
  axes->pop_back();
  return innermost;
}

// Visits an index space in row-major order, keeping every operand's offset. Allocates nothing.
template <size_t operands>
class Walk {
 public:
  Walk(const Axes<operands>& axes, int64_t position) : axes_(axes) {
    for (size_t d = axes.size(); d-- > 0; position /= axes[d].size) {
      index_[d] = position % axes[d].size;
      for (size_t i = 0; i < operands; ++i) offset_[i] += index_[d] * axes[d].stride[i];
    }
  }

  int64_t offset(size_t operand) const { return offset_[operand]; }
  int64_t index(size_t axis) const { return index_[axis]; }

  void next() {
    for (size_t d = axes_.size(); d-- > 0;) {
      const Axis<operands>& axis = axes_[d];
      for (size_t i = 0; i < operands; ++i) offset_[i] += axis.stride[i];
      if (++index_[d] < axis.size) return;
      index_[d] = 0;
      for (size_t i = 0; i < operands; ++i) offset_[i] -= axis.size * axis.stride[i];
    }
  }

 private:
  const Axes<operands>& axes_;
  std::array<int64_t, kMaxRank + 2> index_{};  // two more for tiles of an axis
  std::array<int64_t, operands> offset_{};
};

}  // namespace vpu
