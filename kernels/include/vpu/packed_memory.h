// Where a program keeps the constants that its kernels packed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vpu {

// Pieces start on a cache line and live as long as the program. Nobody writes to one once it is
// packed, so that equal pieces may be the same memory, in other programs of the process too.
class PackedMemory {
 public:
  // `fill(T*)` writes all of the elements, which have no value before, and packs nothing else
  // meanwhile.
  template <class T, class Fill>
  const T* pack(int64_t elements, Fill fill) {
    const size_t bytes = static_cast<size_t>(elements) * sizeof(T);
    charge(bytes);
    std::byte* piece = take(bytes);
    fill(reinterpret_cast<T*>(piece));
    return reinterpret_cast<const T*>(keep(piece, bytes));
  }

  // Counts bytes that a kernel keeps elsewhere, before it takes them. Ends loading, by an
  // exception, beyond the program's limit.
  virtual void charge(uint64_t bytes) = 0;

 protected:
  ~PackedMemory() = default;

 private:
  virtual std::byte* take(size_t bytes) = 0;
  // Answers where the piece is from now on.
  virtual const std::byte* keep(const std::byte* piece, size_t bytes) = 0;
};

}  // namespace vpu
