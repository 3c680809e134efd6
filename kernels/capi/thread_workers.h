// A plain pool of threads, for users of the C API. Under ExecuTorch its own pool is used instead.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "vpu/workers.h"

namespace vpu {

// The calling thread works too, so `count` workers need count - 1 threads. They sleep between
// tasks: a spinning one slows its neighbour down where two share a core.
class ThreadWorkers final : public Workers {
 public:
  explicit ThreadWorkers(int count);
  ~ThreadWorkers() override;
  int count() const override { return static_cast<int>(threads_.size()) + 1; }
  void run(int tasks, TaskRef task) override;

 private:
  void serve();
  void work(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::optional<TaskRef> task_;
  int next_ = 0;  // the first task nobody took
  int tasks_ = 0;
  int unfinished_ = 0;  // tasks taken or not taken, but not done
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace vpu
