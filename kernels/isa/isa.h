// Choosing the instruction set a program runs on. Which sets there are: registry.inc.
#pragma once

#include <string>
#include <vector>

#include "isa/micro_kernels.h"
#include "vpu/status.h"

namespace vpu::isa {

struct IsaStatus {
  const char* name;
  bool available;
  std::string reason;  // what is missing, where it is not available
};

// `requested` empty: the VPU_ISA environment variable, else the best set this CPU has. A name that
// is unknown, or a set that is missing here, is answered with what this CPU does have.
Status choose_isa(const std::string& requested, const Isa** out);

// Every set of registry.inc, the best last.
std::vector<IsaStatus> list_isas();

}  // namespace vpu::isa
