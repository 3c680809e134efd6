// Registers, and what instructions do with their lanes, in portable C++.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace vpu::emulation {

[[noreturn]] inline void fault(const char* what) {
  std::fprintf(stderr, "emulated CPU: %s\n", what);
  std::abort();
}

// A register is bytes; an instruction says which lanes it sees in them.
template <int size>
struct Register {
  unsigned char bytes[size];
};

template <class T, int size>
struct Lanes {
  static constexpr int count = size / static_cast<int>(sizeof(T));
  T lane[count];

  Lanes() = default;
  explicit Lanes(const Register<size>& from) { std::memcpy(lane, from.bytes, size); }
  T& operator[](int i) { return lane[i]; }
  const T& operator[](int i) const { return lane[i]; }
  operator Register<size>() const {  // NOLINT: implicit on purpose
    Register<size> to;
    std::memcpy(to.bytes, lane, size);
    return to;
  }
};

// f(lanes of a, ...) for every lane.
template <class T, int size, class F, class... Registers>
inline Register<size> map(F f, const Register<size>& a, const Registers&... more) {
  return [&f](const auto&... x) {
    Lanes<T, size> y;
    for (int i = 0; i < y.count; ++i) y[i] = f(x[i]...);
    return y;
  }(Lanes<T, size>(a), Lanes<T, size>(more)...);
}

template <int size, class T>
inline Register<size> set1(T value) {
  Lanes<T, size> y;
  for (T& lane : y.lane) lane = value;
  return y;
}

template <int size>
inline Register<size> load(const void* from) {
  Register<size> y;
  std::memcpy(y.bytes, from, size);
  return y;
}
template <int size>
inline void store(void* to, const Register<size>& x) {
  std::memcpy(to, x.bytes, size);
}

template <class T>
inline T* aligned(T* address) {
  if (reinterpret_cast<uintptr_t>(address) % 64 != 0) fault("an aligned access is not aligned");
  return address;
}

// Bytes of which bit i of the mask is not set are zero, and not read.
template <int size>
inline Register<size> load_bytes(uint64_t mask, const void* from) {
  Register<size> y{};
  for (int i = 0; i < size; ++i) {
    if (mask >> i & 1) y.bytes[i] = static_cast<const unsigned char*>(from)[i];
  }
  return y;
}
template <int size>
inline void store_bytes(void* to, uint64_t mask, const Register<size>& x) {
  for (int i = 0; i < size; ++i) {
    if (mask >> i & 1) static_cast<unsigned char*>(to)[i] = x.bytes[i];
  }
}

template <int part_size, int size>
inline Register<part_size> part(const Register<size>& x, int index) {
  return load<part_size>(x.bytes + index * part_size);
}

// Each lane of a type converted to one of another; the registers have as many lanes.
template <class From, class To, int size>
inline auto convert(const Register<size>& x) {
  const Lanes<From, size> from(x);
  Lanes<To, size* static_cast<int>(sizeof(To)) / static_cast<int>(sizeof(From))> to;
  for (int i = 0; i < to.count; ++i) to[i] = static_cast<To>(from[i]);
  return Register<sizeof(to.lane)>(to);
}

template <class To>
inline To saturate(int x) {
  constexpr int least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
  return static_cast<To>(x < least ? least : x > most ? most : x);
}

// In each 128 bits of the result: those of a, narrowed, then those of b.
template <class From, class To, int size>
inline Register<size> pack(const Register<size>& a, const Register<size>& b) {
  constexpr int n = 16 / sizeof(From);
  const Lanes<From, size> x(a), y(b);
  Lanes<To, size> z;
  for (int i = 0; i < x.count; ++i) {
    const int to = i / n * 2 * n + i % n;
    z[to] = saturate<To>(x[i]);
    z[to + n] = saturate<To>(y[i]);
  }
  return z;
}

// In each 128 bits: the lower (half 0) or upper (half 1) lanes of a and b by turns.
template <class T, int half, int size>
inline Register<size> unpack(const Register<size>& a, const Register<size>& b) {
  constexpr int n = 16 / sizeof(T);
  const Lanes<T, size> x(a), y(b);
  Lanes<T, size> z;
  for (int i = 0; i < z.count; ++i) {
    const int from = i / n * n + half * n / 2 + i % n / 2;
    z[i] = i % 2 == 0 ? x[from] : y[from];
  }
  return z;
}

// The rounding mode is that of the process: half to even. What does not fit is INT_MIN.
inline int32_t to_int32(float x) {
  const bool fits = x >= -2147483648.0f && x < 2147483648.0f;
  return fits ? static_cast<int32_t>(std::lrint(x)) : std::numeric_limits<int32_t>::min();
}
template <int size>
inline Register<size> round_to_int32(const Register<size>& x) {
  const Lanes<float, size> from(x);
  Lanes<int32_t, size> to;
  for (int i = 0; i < to.count; ++i) to[i] = to_int32(from[i]);
  return to;
}

// Sums of the products of neighbouring 16-bit lanes; they wrap.
template <int size>
inline Register<size> multiply_pairs(const Register<size>& a, const Register<size>& b) {
  const Lanes<int16_t, size> x(a), y(b);
  Lanes<uint32_t, size> z;
  for (int i = 0; i < z.count; ++i) {
    z[i] = static_cast<uint32_t>(x[2 * i] * y[2 * i]) +
           static_cast<uint32_t>(x[2 * i + 1] * y[2 * i + 1]);
  }
  return z;
}

inline int16_t add_saturated(int16_t a, int16_t b) { return saturate<int16_t>(a + b); }

// Of floats one of which is not a number: b.
template <class T>
inline T lesser(T a, T b) {
  return a < b ? a : b;
}
template <class T>
inline T greater(T a, T b) {
  return a > b ? a : b;
}

}  // namespace vpu::emulation
