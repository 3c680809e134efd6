// Whether the runtime's values are what a program declares.
#pragma once

#include <executorch/runtime/core/evalue.h>

#include "vpu/interpreter.h"

namespace vpu {

// `kind` and `index` name the value in messages: "input 0".
Status check_argument(const executorch::runtime::EValue& value, const ArgumentInfo& expected,
                      const char* kind, size_t index);

}  // namespace vpu
