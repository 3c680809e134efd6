#include "capi/thread_workers.h"

#include <system_error>

namespace vpu {

ThreadWorkers::ThreadWorkers(int count) {
  try {
    for (int i = 1; i < count; ++i) threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {  // no more threads to be had: go on with those there are
  }
}

ThreadWorkers::~ThreadWorkers() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadWorkers::run(int tasks, TaskRef task) {
  if (tasks == 1 || threads_.empty()) {
    for (int t = 0; t < tasks; ++t) task(t);
    return;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  task_ = task;
  next_ = 0;
  tasks_ = unfinished_ = tasks;
  wake_.notify_all();
  work(lock);
  done_.wait(lock, [this] { return unfinished_ == 0; });
}

void ThreadWorkers::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || next_ < tasks_; });
    if (stop_) return;
    work(lock);
  }
}

void ThreadWorkers::work(std::unique_lock<std::mutex>& lock) {
  while (next_ < tasks_) {
    const int t = next_++;
    const TaskRef task = *task_;
    lock.unlock();
    task(t);
    lock.lock();
    if (--unfinished_ == 0) done_.notify_one();
  }
}

}  // namespace vpu
