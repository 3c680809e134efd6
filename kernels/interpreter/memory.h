// Memory that starts on a cache line.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "vpu/kernel.h"

namespace vpu {

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeMemory>;

// Null if the system has not that much. Huge pages where one is at least half full: activations are
// gone through in every direction, which small ones take too many entries of the TLB for.
inline AlignedMemory allocate_aligned(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const bool huge = bytes >= kHugePage / 2;
  const size_t alignment = huge ? kHugePage : kAlignment;
  const size_t size = (std::max(bytes, size_t{1}) + alignment - 1) / alignment * alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, size));
  if (huge && memory != nullptr) madvise(memory, size, MADV_HUGEPAGE);
  return AlignedMemory(memory);
}

}  // namespace vpu
