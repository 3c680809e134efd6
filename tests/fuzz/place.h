// Gives a program's arena tensors their places.
#pragma once

#include "case.h"
#include "random.h"

namespace vpu::fuzz {

// Each where nothing else lives meanwhile, at a random alignment; often where another has been, or
// where a residual is that the output may overwrite. Views lie where their root does.
void place(Case* c, Random* random);

}  // namespace vpu::fuzz
