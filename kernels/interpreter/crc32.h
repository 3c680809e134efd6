// CRC-32 as in zlib, PNG and Ethernet (reflected polynomial 0xEDB88320).
#pragma once

#include <cstddef>
#include <cstdint>

namespace vpu {

// Continues `crc`, the value for the bytes before; 0 to begin.
uint32_t crc32(uint32_t crc, const uint8_t* bytes, size_t size);

}  // namespace vpu
