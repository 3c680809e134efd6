// What loading a program may cost, so that a small program cannot ask for any amount of it.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace vpu {

// Bytes of memory, and bytes that are read or written while loading: a FlatBuffer may name the same
// constant or vector any number of times, and each time counts.
class Budget {
 public:
  // What std::exception::what() answers stands in the Status of loading.
  struct Exceeded : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  explicit Budget(uint64_t limit) : limit_(limit) {}

  void spend(uint64_t bytes) {
    if (bytes > limit_ - spent_) throw Exceeded(refusal(bytes));
    spent_ += bytes;
  }

 private:
  std::string refusal(uint64_t bytes) const {
    return "loading the VPU program takes more than its memory limit of " + std::to_string(limit_) +
           " bytes: " + std::to_string(spent_) + " bytes, and now " + std::to_string(bytes) +
           " more; if the program is trusted, raise the limit (VPU_MEMORY_LIMIT)";
  }

  const uint64_t limit_;
  uint64_t spent_ = 0;
};

}  // namespace vpu
