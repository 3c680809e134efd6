// What the CPU, and the operating system on it, can run.
#pragma once

#include <string>

namespace vpu::isa {

// Those of the space-separated features that are missing here, space-separated.
std::string cpu_lacks(const char* features);

}  // namespace vpu::isa
