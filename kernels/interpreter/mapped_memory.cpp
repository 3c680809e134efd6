#include "interpreter/mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>

#if defined(__has_feature)
#define VPU_HAS_FEATURE(name) __has_feature(name)
#else
#define VPU_HAS_FEATURE(name) 0
#endif
// GCC defines a macro, Clang has a feature.
#if defined(__SANITIZE_ADDRESS__) || VPU_HAS_FEATURE(address_sanitizer)
#define VPU_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace vpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMostUnfilled = kHugePage * 3 / 8;  // of the last one

// `alignment` is a power of 2.
uintptr_t round_down(const void* at, size_t alignment) {
  return reinterpret_cast<uintptr_t>(at) & ~(alignment - 1);
}

}  // namespace

MappedMemory::MappedMemory(size_t bytes, size_t full) {
  const size_t huge = full < kHugePage ? 0 : (full + kMostUnfilled) & ~(kHugePage - 1);
  bytes_ = std::max(bytes, huge);
  mapped_ = bytes_ + (huge > 0 ? kHugePage : 0);
  void* mapping =
      mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  begin_ = mapping_ = static_cast<std::byte*>(mapping);
  if (huge == 0) return;
  begin_ = reinterpret_cast<std::byte*>(round_down(mapping_ + kHugePage - 1, kHugePage));
  madvise(begin_, huge, MADV_HUGEPAGE);  // a system that has none gives small ones
}

MappedMemory::~MappedMemory() {
  allow(begin(), end());  // whoever gets these addresses next
  munmap(mapping_, mapped_);
}

void MappedMemory::release(const std::byte* begin, const std::byte* end) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = round_down(begin + page - 1, page);
  const uintptr_t last = round_down(end, page);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

#if defined(VPU_ADDRESS_SANITIZER)
void forbid(const std::byte* begin, const std::byte* end) {
  __asan_poison_memory_region(begin, static_cast<size_t>(end - begin));
}
void allow(const std::byte* begin, const std::byte* end) {
  __asan_unpoison_memory_region(begin, static_cast<size_t>(end - begin));
}
#else
void forbid(const std::byte*, const std::byte*) {}
void allow(const std::byte*, const std::byte*) {}
#endif

}  // namespace vpu
