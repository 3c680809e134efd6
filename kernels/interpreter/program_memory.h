// The packed memory of one program: large chunks, of which one piece after another is taken.
#pragma once

#include <memory>
#include <vector>

#include "interpreter/budget.h"
#include "interpreter/mapped_memory.h"
#include "interpreter/shared_pieces.h"
#include "vpu/packed_memory.h"

namespace vpu {

class ProgramMemory final : public PackedMemory {
 public:
  // `expected` is about what all pieces together need. Taking one may throw std::bad_alloc.
  ProgramMemory(size_t expected, Budget* budget) : expected_(expected), budget_(budget) {}

  void charge(uint64_t bytes) override { budget_->spend(bytes); }

  // No piece follows: gives back what was touched but is not used.
  void finish();

 private:
  std::byte* take(size_t bytes) override;
  const std::byte* keep(const std::byte* piece, size_t bytes) override;
  void add_chunk(size_t least);

  size_t expected_;
  Budget* budget_;  // of loading; not used after
  std::vector<std::shared_ptr<MappedMemory>> chunks_;
  std::byte* next_ = nullptr;  // in the last chunk
  std::byte* end_ = nullptr;
  std::vector<PieceUse> shared_;
};

}  // namespace vpu
