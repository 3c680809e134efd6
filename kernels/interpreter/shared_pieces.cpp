#include "interpreter/shared_pieces.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "interpreter/crc32.h"
#include "vpu/kernel.h"

namespace vpu {
namespace {

struct Pieces {
  std::mutex mutex;
  std::unordered_multimap<uint32_t, SharedPiece> by_fingerprint;
};

// Never destroyed: a program may be destroyed later than anything else in the process.
Pieces& pieces() {
  static Pieces& all = *new Pieces;
  return all;
}

// Tells apart most pieces that differ, by few of their cache lines.
uint32_t fingerprint(const std::byte* memory, size_t bytes) {
  constexpr size_t kLines = 64;
  const auto* from = reinterpret_cast<const uint8_t*>(memory);
  uint32_t crc = static_cast<uint32_t>(bytes);
  for (size_t at = 0; at + kAlignment <= bytes; at += align_up(bytes / kLines + 1)) {
    crc = crc32(crc, from + at, kAlignment);
  }
  return crc;
}

}  // namespace

PieceUse share(const std::byte* memory, size_t bytes, const std::shared_ptr<MappedMemory>& chunk) {
  const uint32_t key = fingerprint(memory, bytes);
  std::lock_guard<std::mutex> lock(pieces().mutex);
  auto& all = pieces().by_fingerprint;
  const auto [begin, end] = all.equal_range(key);
  auto found = std::find_if(begin, end, [&](const auto& entry) {
    const SharedPiece& piece = entry.second;
    return piece.bytes == bytes && std::memcmp(piece.memory, memory, bytes) == 0;
  });
  if (found == end) found = all.emplace(key, SharedPiece{memory, bytes, chunk, key, 0});
  ++found->second.users;
  return PieceUse(&found->second);
}

void EndUse::operator()(SharedPiece* piece) const {
  std::lock_guard<std::mutex> lock(pieces().mutex);
  if (--piece->users > 0) return;
  auto& all = pieces().by_fingerprint;
  const auto [begin, end] = all.equal_range(piece->fingerprint);
  const auto entry =
      std::find_if(begin, end, [&](const auto& other) { return &other.second == piece; });
  forbid(piece->memory, piece->memory + piece->bytes);
  piece->chunk->release(piece->memory, piece->memory + piece->bytes);
  all.erase(entry);
}

}  // namespace vpu
