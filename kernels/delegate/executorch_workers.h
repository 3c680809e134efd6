// ExecuTorch's thread pool as Workers.
#pragma once

#include <executorch/runtime/kernel/thread_parallel_interface.h>

#include <algorithm>

#include "vpu/workers.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace vpu {

// What ThreadSanitizer cannot see of the wheel's pool, which is compiled without it: what comes
// before a call happens before its tasks, and these before its return.
struct PoolOrder {
  char begun = 0, done = 0;
#if defined(__SANITIZE_THREAD__)
  void before_tasks() { __tsan_release(&begun); }
  void task_begins() { __tsan_acquire(&begun); }
  void task_ends() { __tsan_release(&done); }
  void after_tasks() { __tsan_acquire(&done); }
#else
  void before_tasks() {}
  void task_begins() {}
  void task_ends() {}
  void after_tasks() {}
#endif
};

// The pool's threads; with one, or where NoThreadPoolGuard forbids the pool, the calling thread.
inline int pool_size() {
  return std::max(1, static_cast<int>(executorch::extension::get_thread_count()));
}

class ExecutorchWorkers final : public Workers {
 public:
  explicit ExecutorchWorkers(int limit) : count_(std::min(limit, pool_size())) {}

  int count() const override { return count_; }

  void run(int tasks, TaskRef task) override {
    PoolOrder order;
    const auto run_range = [&task, &order](int64_t begin, int64_t end) {
      order.task_begins();
      for (int64_t t = begin; t < end; ++t) task(static_cast<int>(t));
      order.task_ends();
    };
    order.before_tasks();
    // A refusal comes before any task has run.
    if (tasks == 1 || count_ == 1 ||
        !executorch::extension::parallel_for(0, tasks, /*grain_size=*/1, run_range)) {
      run_range(0, tasks);
    }
    order.after_tasks();
  }

 private:
  int count_;
};

}  // namespace vpu
