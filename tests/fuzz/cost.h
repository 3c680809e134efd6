// What running a program would take, told from its shapes alone.
#pragma once

#include "case.h"

namespace vpu::fuzz {

struct Cost {
  double bytes = 0;  // of everything that loading and running allocate, roughly
  double work = 0;   // products, and elements read or written
};

// Also of programs that no interpreter would take.
Cost cost_of(const Case& c);

}  // namespace vpu::fuzz
