#include "watch.h"

#include <sanitizer/allocator_interface.h>

#include <algorithm>

namespace vpu::fuzz {
namespace {

bool watching = false;
int64_t held = 0;
int64_t peak = 0;

void allocated(const volatile void*, size_t bytes) {
  if (!watching) return;
  held += static_cast<int64_t>(bytes);
  peak = std::max(peak, held);
}

void freed(const volatile void* memory) {
  if (!watching || memory == nullptr) return;
  held -= static_cast<int64_t>(__sanitizer_get_allocated_size(memory));
}

}  // namespace

Watch::Watch() {
  static const int installed = __sanitizer_install_malloc_and_free_hooks(allocated, freed);
  held = peak = 0;
  watching = installed > 0;
}

Watch::~Watch() { watching = false; }

uint64_t Watch::peak_bytes() const { return static_cast<uint64_t>(peak); }

double Watch::seconds() const {
  return static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC;
}

}  // namespace vpu::fuzz
