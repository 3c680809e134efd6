// Random choices, made from a seed.
#pragma once

#include <cstdint>
#include <vector>

namespace vpu::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // SplitMix64.
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

  // 0 .. n-1; 0 if there is none.
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(next() % n); }
  // Both included.
  int32_t between(int32_t least, int32_t most) {
    return least + static_cast<int32_t>(below(static_cast<size_t>(most - least) + 1));
  }
  bool one_in(size_t n) { return below(n) == 0; }
  template <class T>
  T pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace vpu::fuzz
