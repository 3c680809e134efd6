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

constexpr size_t kHugePage = size_t{2} << 20;

// Huge pages where one is at least half full: activations are gone through in every direction,
// which small ones take too many entries of the TLB for.
constexpr size_t alignment_of(size_t bytes) {
  return bytes >= kHugePage / 2 ? kHugePage : kAlignment;
}

// What allocate_aligned takes for so many bytes.
constexpr size_t allocated_bytes(size_t bytes) {
  const size_t alignment = alignment_of(bytes);
  return (std::max(bytes, size_t{1}) + alignment - 1) / alignment * alignment;
}

// Null if the system has not that much.
inline AlignedMemory allocate_aligned(size_t bytes) {
  const size_t alignment = alignment_of(bytes), size = allocated_bytes(bytes);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, size));
  if (alignment == kHugePage && memory != nullptr) madvise(memory, size, MADV_HUGEPAGE);
  return AlignedMemory(memory);
}

}  // namespace vpu
