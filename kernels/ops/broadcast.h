// Operands that broadcast: Add, Mul and MatMul's leading dimensions.
#pragma once

#include <algorithm>
#include <string>

#include "ops/axes.h"
#include "ops/check.h"

namespace vpu {

// How far each operand moves along the first `rank` axes of the output: 0 where it has size 1 and
// repeats.
inline Status broadcast(const TensorInfo& a, const TensorInfo& b, const std::vector<int32_t>& shape,
                        size_t rank, Axes<2>* axes) {
  const std::vector<int64_t> a_strides = strides_of(a.shape);
  const std::vector<int64_t> b_strides = strides_of(b.shape);
  for (size_t d = 0; d < rank; ++d) {
    const int32_t size = std::max(a.shape[d], b.shape[d]);
    VPU_EXPECT((a.shape[d] == size || a.shape[d] == 1) && (b.shape[d] == size || b.shape[d] == 1) &&
                   shape[d] == size,
               "shapes %s and %s do not broadcast to %s", to_string(a.shape).c_str(),
               to_string(b.shape).c_str(), to_string(shape).c_str());
    axes->push_back(
        {size, {a.shape[d] == 1 ? 0 : a_strides[d], b.shape[d] == 1 ? 0 : b_strides[d]}});
  }
  return {};
}

}  // namespace vpu
