// What is allocated on the heap, and how long it takes, while one of these lives.
#pragma once

#include <cstdint>
#include <ctime>

namespace vpu::fuzz {

// One at a time, while no other thread allocates.
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  uint64_t peak_bytes() const;
  double seconds() const;  // of the processor

 private:
  std::clock_t start_ = std::clock();
};

}  // namespace vpu::fuzz
