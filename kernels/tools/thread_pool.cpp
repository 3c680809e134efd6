#include "tools/thread_pool.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>

// ExecuTorch's libexecutorch_threadpool exports this class, but its wheel has no header of it. The
// declaration is that of the one version this program builds against.
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  bool _unsafe_reset_threadpool(uint32_t threads);
};
ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool

namespace vpu::tools {

uint32_t most_threads() {
  const uint32_t processors = std::thread::hardware_concurrency();  // 0: not known
  return kThreadsPerProcessor * std::max(processors, 1u);
}

void set_threads(uint32_t count) {
  auto* pool = executorch::extension::threadpool::get_threadpool();
  if (pool == nullptr || !pool->_unsafe_reset_threadpool(count)) {
    throw std::runtime_error("cannot make a thread pool of " + std::to_string(count) + " threads");
  }
}

}  // namespace vpu::tools
