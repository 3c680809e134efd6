// One at a time: whoever comes while another is there is told so, instead of waiting.
#pragma once

#include <atomic>

#include "vpu/status.h"

namespace vpu {

// What is held while it lives, if it was free.
class Turn {
 public:
  explicit Turn(std::atomic<bool>* busy)
      : busy_(busy->exchange(true, std::memory_order_acquire) ? nullptr : busy) {}
  ~Turn() {
    if (busy_ != nullptr) busy_->store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Status status() const {
    if (busy_ != nullptr) return {};
    return Status(Code::kBusy,
                  "the program is being executed already: a loaded program runs one inference at a "
                  "time; wait for it, or load the program once per thread");
  }

 private:
  std::atomic<bool>* busy_;
};

}  // namespace vpu
