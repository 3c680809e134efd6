// The VPU's dtypes by ExecuTorch's names.
#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include "vpu_generated.h"

namespace vpu {

inline executorch::aten::ScalarType scalar_type(schema::DType dtype) {
  using executorch::aten::ScalarType;
  switch (dtype) {
    case schema::DType_Int8:
      return ScalarType::Char;
    case schema::DType_Int32:
      return ScalarType::Int;
    case schema::DType_Float32:
      return ScalarType::Float;
  }
  return ScalarType::Undefined;
}

}  // namespace vpu
