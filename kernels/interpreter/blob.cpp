#include "interpreter/blob.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "interpreter/crc32.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Programs are little-endian and read in place."
#endif

namespace vpu {
namespace {

constexpr size_t kHeaderSize = 64;
constexpr size_t kChecksummedHeader = 32;
constexpr size_t kUsedHeader = 36;
constexpr size_t kSectionAlignment = 64;

struct Header {
  char magic[4];
  uint32_t version;
  uint64_t program_size;
  uint64_t constants_offset;
  uint64_t constants_size;
  uint32_t crc32;
};

bool all_zero(const uint8_t* begin, const uint8_t* end) {
  return std::all_of(begin, end, [](uint8_t byte) { return byte == 0; });
}

// The sections must fill the blob exactly. Written so that no sum can overflow.
bool sections_fit(const Header& header, size_t size) {
  if (header.program_size > size - kHeaderSize) return false;
  const uint64_t program_end = kHeaderSize + header.program_size;
  const uint64_t constants = (program_end + kSectionAlignment - 1) & ~(kSectionAlignment - 1);
  return header.constants_offset == constants && constants <= size &&
         header.constants_size == size - constants;
}

}  // namespace

Status open_blob(const void* data, size_t size, Blob* blob) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (bytes == nullptr || size < kHeaderSize) {
    return error(Code::kIncompatible,
                 "not a VPU program: %zu bytes are fewer than its %zu-byte header", size,
                 kHeaderSize);
  }
  Header header;
  std::memcpy(&header, bytes, sizeof(header));
  if (std::memcmp(header.magic, "VPUB", sizeof(header.magic)) != 0) {
    return error(Code::kIncompatible, "not a VPU program: it does not begin with \"VPUB\"");
  }
  if (header.version != kBlobVersion) {
    return error(Code::kIncompatible,
                 "the VPU program has format version %" PRIu32
                 ", this library reads version %" PRIu32
                 ": lower the model again with the executorch-vpu that runs it",
                 header.version, kBlobVersion);
  }
  if (!sections_fit(header, size)) {
    return error(
        Code::kCorrupt,
        "the VPU program is truncated or damaged: %zu bytes do not hold a program of %" PRIu64
        " bytes and, from %" PRIu64 ", constants of %" PRIu64 " bytes",
        size, header.program_size, header.constants_offset, header.constants_size);
  }
  const uint32_t crc =
      crc32(crc32(0, bytes, kChecksummedHeader), bytes + kHeaderSize, size - kHeaderSize);
  if (crc != header.crc32) {
    return error(Code::kCorrupt,
                 "the VPU program is damaged: its checksum is %08" PRIx32
                 ", it declares %08" PRIx32,
                 crc, header.crc32);
  }
  const uint8_t* program = bytes + kHeaderSize;
  const uint8_t* constants = bytes + header.constants_offset;
  if (!all_zero(bytes + kUsedHeader, program) ||
      !all_zero(program + header.program_size, constants)) {
    return error(Code::kCorrupt, "the VPU program is damaged: its padding is not zero");
  }
  blob->program = program;
  blob->program_size = static_cast<size_t>(header.program_size);
  blob->constants = constants;
  blob->constants_size = static_cast<size_t>(header.constants_size);
  return {};
}

}  // namespace vpu
