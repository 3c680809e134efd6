#include "interpreter/program_memory.h"

#include <algorithm>

#include "vpu/kernel.h"

namespace vpu {
namespace {

// It is not worth looking for an equal one of a smaller piece.
constexpr size_t kWorthSharing = 4096;

// With a line behind it that is nobody's, for AddressSanitizer to see who goes beyond the piece.
constexpr size_t room_for(size_t bytes) { return align_up(bytes) + kAlignment; }

}  // namespace

std::byte* ProgramMemory::take(size_t bytes) {
  if (room_for(bytes) > static_cast<size_t>(end_ - next_)) add_chunk(room_for(bytes));
  allow(next_, next_ + bytes);
  return next_;
}

const std::byte* ProgramMemory::keep(const std::byte* piece, size_t bytes) {
  if (bytes >= kWorthSharing) {
    shared_.push_back(share(piece, bytes, chunks_.back()));
    const std::byte* shared = shared_.back()->memory;
    if (shared != piece) {
      forbid(piece, piece + bytes);  // the next piece is taken here
      return shared;
    }
  }
  next_ += room_for(bytes);
  return piece;
}

// With room for what packing adds: what stays untouched costs nothing.
void ProgramMemory::add_chunk(size_t least) {
  constexpr size_t kSpare = size_t{64} << 10;
  const size_t bytes = std::max(least, expected_ + expected_ / 4 + kSpare);
  const size_t full = chunks_.empty() ? expected_ : 0;
  finish();
  chunks_.push_back(std::make_shared<MappedMemory>(bytes, full));
  next_ = chunks_.back()->begin();
  end_ = chunks_.back()->end();
  forbid(next_, end_);
}

void ProgramMemory::finish() {
  if (!chunks_.empty()) chunks_.back()->release(next_, end_);
}

}  // namespace vpu
