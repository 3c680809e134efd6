#include "interpreter/crc32.h"

#include <array>

namespace vpu {
namespace {

// Slicing by 16: slice[k][b] is the effect of byte b on the register k bytes later, so that sixteen
// independent look-ups replace sixteen dependent ones.
constexpr size_t kSlices = 16;
using Slices = std::array<std::array<uint32_t, 256>, kSlices>;

constexpr Slices make_slices() {
  Slices slice{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xEDB88320u : 0u);
    slice[0][byte] = value;
  }
  for (size_t k = 1; k < kSlices; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = slice[k - 1][byte];
      slice[k][byte] = (previous >> 8) ^ slice[0][previous & 0xFF];
    }
  }
  return slice;
}

constexpr Slices kSlice = make_slices();

}  // namespace

uint32_t crc32(uint32_t crc, const uint8_t* bytes, size_t size) {
  crc = ~crc;
  for (; size >= kSlices; bytes += kSlices, size -= kSlices) {
    uint32_t next = 0;
    for (size_t i = 0; i < kSlices; ++i) {
      const uint32_t mixed = i < 4 ? bytes[i] ^ ((crc >> (8 * i)) & 0xFF) : bytes[i];
      next ^= kSlice[kSlices - 1 - i][mixed];
    }
    crc = next;
  }
  for (; size > 0; ++bytes, --size) crc = (crc >> 8) ^ kSlice[0][(crc ^ *bytes) & 0xFF];
  return ~crc;
}

}  // namespace vpu
