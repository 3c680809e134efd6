// Averages of int8 cells: a sum in int32, then one division. AvgPool2d and Mean.
#pragma once

#include <algorithm>
#include <cstdint>

#include "isa/micro_kernels.h"
#include "ops/check.h"

namespace vpu {

// Channels whose sums are kept at a time.
constexpr int64_t kSumBlock = 256;

inline Status expect_summable(int64_t cells) {
  VPU_EXPECT(cells <= kInt32Max / kMaxCentered, "an int32 may not hold its sum of %lld cells",
             static_cast<long long>(cells));
  return {};
}

}  // namespace vpu
