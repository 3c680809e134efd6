// The container of a program: a 64-byte header, the FlatBuffer of schema/vpu.fbs, the constants.
//
//   bytes   0..3    "VPUB"
//           4..7    version
//           8..15   program_size       the FlatBuffer starts at 64
//          16..23   constants_offset   a multiple of 64, the next after the FlatBuffer
//          24..31   constants_size     the blob ends with the constants
//          32..35   CRC-32 of bytes 0..31 and 64..end
//          36..63   zero
//
// Numbers are little-endian, padding is zero. backend/serialize.py writes this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vpu/status.h"

namespace vpu {

constexpr uint32_t kBlobVersion = 1;

// What reading it in place takes; it is also what ExecuTorch gives a delegate's data by default.
constexpr size_t kBlobAlignment = 16;

struct Blob {
  const uint8_t* program = nullptr;
  size_t program_size = 0;
  const uint8_t* constants = nullptr;
  size_t constants_size = 0;
};

// Checks everything but the FlatBuffer's inside. `data` is aligned to kBlobAlignment.
Status open_blob(const void* data, size_t size, Blob* blob);

}  // namespace vpu
