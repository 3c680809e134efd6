// Counts the allocations of the VPU's libraries, or on their behalf. To be preloaded (LD_PRELOAD).
//
// An allocation counts if a function of libvpu or libexecutorch_vpu is among the callers, in
// whatever thread: the process around them (Python, ExecuTorch) may allocate as it likes.
#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

extern "C" {

// What glibc calls its own.
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

static std::atomic<bool> counting{false};
static std::atomic<long> count{0};

static bool is_ours(void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  return std::strstr(info.dli_fname, "libvpu.so") != nullptr ||
         std::strstr(info.dli_fname, "libexecutorch_vpu.so") != nullptr;
}

static void look_at_callers() {
  thread_local bool looking = false;  // what this allocates itself is of no interest
  if (!counting || looking) return;
  looking = true;
  void* callers[64];
  const int depth = backtrace(callers, 64);
  bool ours = false;
  for (int i = 0; i < depth && !ours; ++i) ours = is_ours(callers[i]);
  if (ours) ++count;
  looking = false;
}

// Starts at zero.
void start_counting() {
  void* callers[1];
  backtrace(callers, 1);  // loads a library the first time
  count = 0;
  counting = true;
}

long stop_counting() {
  counting = false;
  return count;
}

void* malloc(size_t bytes) {
  look_at_callers();
  return __libc_malloc(bytes);
}

void* calloc(size_t elements, size_t bytes) {
  look_at_callers();
  return __libc_calloc(elements, bytes);
}

void* realloc(void* old, size_t bytes) {
  look_at_callers();
  return __libc_realloc(old, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  look_at_callers();
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}

}  // extern "C"
