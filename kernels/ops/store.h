// The last step of an instruction: a float becomes an int8 of the output's zero point.
#pragma once

#include "isa/micro_kernels.h"
#include "ops/check.h"

namespace vpu {

inline isa::Store store_to(const TensorInfo& output, int32_t out_min = -128,
                           int32_t out_max = 127) {
  const int32_t zero_point = output.zero_point;
  return {static_cast<float>(out_min - zero_point), static_cast<float>(out_max - zero_point),
          zero_point};
}

// The store of a table with out_min and out_max.
template <class Table>
Status read_store(const Table& table, const TensorInfo& output, isa::Store* store) {
  VPU_EXPECT(table.out_min() <= table.out_max(), "it clamps to [%d, %d]", table.out_min(),
             table.out_max());
  *store = store_to(output, table.out_min(), table.out_max());
  return {};
}

}  // namespace vpu
