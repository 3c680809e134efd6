// ExecuTorch's thread pool as Workers.
#pragma once

#include <executorch/runtime/kernel/thread_parallel_interface.h>

#include <algorithm>

#include "vpu/workers.h"

namespace vpu {

// The pool's threads; with one, or where NoThreadPoolGuard forbids the pool, the calling thread.
inline int pool_size() {
  return std::max(1, static_cast<int>(executorch::extension::get_thread_count()));
}

class ExecutorchWorkers final : public Workers {
 public:
  explicit ExecutorchWorkers(int limit) : count_(std::min(limit, pool_size())) {}

  int count() const override { return count_; }

  void run(int tasks, TaskRef task) override {
    const auto run_range = [&task](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) task(static_cast<int>(t));
    };
    // A refusal comes before any task has run.
    if (tasks == 1 || count_ == 1 ||
        !executorch::extension::parallel_for(0, tasks, /*grain_size=*/1, run_range)) {
      run_range(0, tasks);
    }
  }

 private:
  int count_;
};

}  // namespace vpu
