// The size of ExecuTorch's thread pool.
#pragma once

#include <cstdint>

namespace vpu::tools {

// Must come before a method is loaded: a loaded one keeps the pool it found.
void set_threads(uint32_t count);

}  // namespace vpu::tools
