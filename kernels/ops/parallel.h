// Splitting an instruction over the workers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "vpu/workers.h"

namespace vpu {

// Below this much work per task, handing it to another thread costs more than it saves. Work is
// counted in elements read or written by a simple loop.
constexpr int64_t kTaskWork = 8 * 1024;

inline int task_count(const Workers& workers, int64_t units, int64_t unit_work) {
  const int64_t worth = unit_work >= kTaskWork ? units : units * unit_work / kTaskWork;
  return static_cast<int>(std::clamp<int64_t>(std::min(worth, units), 1, workers.count()));
}

// Calls f(task, begin, end) for consecutive ranges that together are 0 .. units.
template <class F>
void parallel(Workers& workers, int64_t units, int64_t unit_work, F f) {
  const int tasks = task_count(workers, units, unit_work);
  workers.run(tasks, [&](int task) { f(task, units * task / tasks, units * (task + 1) / tasks); });
}

}  // namespace vpu
