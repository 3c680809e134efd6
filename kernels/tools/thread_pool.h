// The size of ExecuTorch's thread pool.
#pragma once

#include <cstdint>

namespace vpu::tools {

// More threads than this for each processor that the process may use are refused: they are of no
// use, and where the system does not give them all ExecuTorch's pool crashes or waits forever.
constexpr uint32_t kThreadsPerProcessor = 8;
uint32_t most_threads();

// Must come before a method is loaded: a loaded one keeps the pool it found.
void set_threads(uint32_t count);

}  // namespace vpu::tools
