// The threads that execute a program together.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "vpu/workers.h"

namespace vpu {

// Threads come to it once per execution and stay, because waking one takes longer than many an
// instruction does. The first to come leads: it goes through the program, and shares out each
// instruction's tasks among those that are there. It waits for none to come, so that it makes no
// difference whether the threads' owner runs them one after another.
class Team final : public Workers {
 public:
  explicit Team(int most);

  // Calls program() on one of at most `most` threads, during which run() may be called. What it
  // throws between two instructions, this does, once all threads have left.
  template <class F>
  void execute(Workers& threads, F program) {
    open(threads.count());
    if (count_ == 1 || !splits_) {
      program();
    } else {
      std::exception_ptr failure;
      threads.run(count_, [&](int) {
        const int member = members_++;
        if (member > 0) return help(member);
        try {
          program();
        } catch (...) {
          failure = std::current_exception();
        }
        end();
      });
      if (failure != nullptr) std::rethrow_exception(failure);
    }
    splits_ = shared_;
  }

  int count() const override { return count_; }
  void run(int tasks, TaskRef task) override;

 private:
  void open(int threads);
  void end();
  void publish();
  void work(int member, uint32_t job);
  void help(int member);
  uint32_t wait_after(uint32_t job);

  const int most_;
  int count_ = 1;
  bool splits_ =
      true;  // whether it pays to call threads: whether the execution before shared tasks
  bool shared_ = false;  // whether this one has

  // A job is what is shared out at a time: task_(t) for t in 0 .. tasks_ - 1.
  std::atomic<uint32_t> job_{0};
  std::optional<TaskRef> task_;
  std::atomic<int> tasks_{0};
  std::atomic<int> unfinished_{0};
  // Of each task, twice the last job it was offered in, plus one as soon as a member has taken it:
  // who takes it knows that it is of the job he means, and that task_ stays until he has done it.
  std::unique_ptr<std::atomic<uint32_t>[]> offers_;
  std::atomic<int> members_{0};
  std::atomic<bool> ended_{false};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
};

}  // namespace vpu
