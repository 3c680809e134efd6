// The pieces of packed memory that programs of this process may share: two methods of one model
// have the same weights, and so has a program that is loaded twice. May be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "interpreter/mapped_memory.h"

namespace vpu {

struct SharedPiece {
  const std::byte* memory;
  size_t bytes;
  std::shared_ptr<MappedMemory> chunk;  // that it lies in
  uint32_t fingerprint;
  size_t users;
};

// A use of a piece. The last one gives its pages back, also while the rest of its chunk is used.
struct EndUse {
  void operator()(SharedPiece* piece) const;
};
using PieceUse = std::unique_ptr<SharedPiece, EndUse>;

// A piece in use that has the same bytes; if there is none, this one, to be shared from now on.
PieceUse share(const std::byte* memory, size_t bytes, const std::shared_ptr<MappedMemory>& chunk);

}  // namespace vpu
