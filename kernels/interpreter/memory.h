// Memory that starts on a cache line.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "vpu/kernel.h"

namespace vpu {

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeMemory>;

// Null if the system has not that much.
inline AlignedMemory allocate_aligned(size_t bytes) {
  const size_t size = align_up(bytes == 0 ? 1 : bytes);
  return AlignedMemory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, size)));
}

}  // namespace vpu
