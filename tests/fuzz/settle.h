// Makes a changed program one that loads: whatever does not fit what stands before it is brought to
// fit it.
#pragma once

#include "case.h"
#include "random.h"

namespace vpu::fuzz {

// Goes through the instructions in order. Operands keep their shapes where they can; constants and
// inputs get those they need, the output the one that follows. What is read but never written
// becomes an input. Constants do not get their bytes yet.
void settle(Case* c, Random* random);

}  // namespace vpu::fuzz
