#include "interpreter/team.h"

#include <algorithm>
#include <thread>

namespace vpu {
namespace {

// How often a member looks for the next job before it sleeps: some 80 us, which most of what the
// leader does alone between two jobs takes less than.
constexpr int kLooks = 2000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Team::Team(int most) : most_(most), offers_(new std::atomic<uint32_t>[static_cast<size_t>(most)]) {
  for (int t = 0; t < most; ++t) offers_[static_cast<size_t>(t)] = 1;
}

void Team::open(int threads) {
  const int count = std::clamp(threads, 1, most_);
  splits_ = splits_ || count != count_;
  count_ = count;
  shared_ = false;
  members_ = 0;
  ended_ = false;
}

void Team::end() {
  ended_ = true;
  publish();
}

void Team::run(int tasks, TaskRef task) {
  shared_ = shared_ || tasks > 1;
  if (tasks == 1 || members_ <= 1) {
    for (int t = 0; t < tasks; ++t) task(t);
    return;
  }
  task_ = task;
  tasks_ = tasks;
  unfinished_ = tasks;
  for (int t = 0; t < tasks; ++t) offers_[static_cast<size_t>(t)] = 2 * (job_ + 1);
  publish();
  work(0, job_);
  for (int looks = 0; unfinished_ > 0; ++looks) {
    looks < kLooks ? relax() : std::this_thread::yield();
  }
}

void Team::publish() {
  ++job_;
  if (sleepers_ == 0) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
  }  // who is about to sleep has looked, or sleeps
  wake_.notify_all();
}

// A member's own task first: of what it wrote for the job before, some is in its core's cache.
void Team::work(int member, uint32_t job) {
  const int tasks = tasks_;
  for (int i = 0; i < tasks; ++i) {
    const int t = (member + i) % tasks;
    uint32_t offered = 2 * job;
    if (!offers_[static_cast<size_t>(t)].compare_exchange_strong(offered, offered + 1)) continue;
    (*task_)(t);
    --unfinished_;
  }
}

void Team::help(int member) {
  for (uint32_t job = job_; !ended_; job = wait_after(job)) work(member, job);
}

uint32_t Team::wait_after(uint32_t job) {
  for (int looks = 0; looks < kLooks; ++looks, relax()) {
    if (job_ != job) return job_;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  ++sleepers_;
  wake_.wait(lock, [&] { return job_ != job; });
  --sleepers_;
  return job_;
}

}  // namespace vpu
