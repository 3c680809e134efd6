// Threads come in from outside: the delegate gives ExecuTorch's pool, the C API its own.
#pragma once

#include <memory>
#include <type_traits>

namespace vpu {

// A borrowed reference to a callable void(int task); costs two pointers and no allocation.
class TaskRef {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, TaskRef>>>
  TaskRef(F&& f)  // NOLINT: implicit on purpose
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, int task) {
          (*static_cast<std::remove_reference_t<F>*>(object))(task);
        }) {}
  void operator()(int task) const { call_(object_, task); }

 private:
  void* object_;
  void (*call_)(void*, int);
};

// Runs tasks 0 .. tasks-1, each exactly once, and returns when all are done. A kernel asks for at
// most count() tasks, so task t may use scratch piece t. Tasks throw nothing; run may, before the
// first of them or after the last.
class Workers {
 public:
  virtual ~Workers() = default;
  virtual int count() const = 0;
  virtual void run(int tasks, TaskRef task) = 0;
};

// One worker: the calling thread.
class SerialWorkers final : public Workers {
 public:
  int count() const override { return 1; }
  void run(int tasks, TaskRef task) override {
    for (int t = 0; t < tasks; ++t) task(t);
  }
};

}  // namespace vpu
