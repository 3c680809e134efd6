// Gives a settled program's constants the bytes that their shapes say.
#pragma once

#include "case.h"
#include "random.h"

namespace vpu::fuzz {

// New bytes are random; values that an instruction would refuse become some that it takes.
void fill_constants(Case* c, Random* random);

}  // namespace vpu::fuzz
