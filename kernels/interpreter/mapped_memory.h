// Memory mapped from the system: what nobody touches costs nothing, and what is released is the
// system's at once, where a heap would keep it.
#pragma once

#include <cstddef>

namespace vpu {

class MappedMemory {
 public:
  // About the first `full` bytes will be written. They are huge pages where that hardly takes more
  // memory: one fault gets 2 MB, and one entry of the TLB finds them. Throws std::bad_alloc.
  MappedMemory(size_t bytes, size_t full);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::byte* begin() const { return begin_; }
  std::byte* end() const { return begin_ + bytes_; }

  // Gives back the pages that lie within [begin, end). What they hold is lost.
  void release(const std::byte* begin, const std::byte* end);

 private:
  std::byte* mapping_;
  size_t mapped_;
  std::byte* begin_;
  size_t bytes_;
};

// Whether AddressSanitizer, if it is there, takes an access to these bytes. By default it does.
void forbid(const std::byte* begin, const std::byte* end);
void allow(const std::byte* begin, const std::byte* end);

}  // namespace vpu
