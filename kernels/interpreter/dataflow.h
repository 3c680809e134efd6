// Whether a program's instructions read only what was written, and write each output once.
#pragma once

#include "interpreter/program.h"

namespace vpu {

// Arena bytes are tracked, not tensors: two tensors may share bytes at different times, and a
// reshape is a second tensor at the same offset. Needs operands that are in range.
Status check_dataflow(const Program& program);

}  // namespace vpu
