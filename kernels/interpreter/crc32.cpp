#include "interpreter/crc32.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

// With its complements left to the caller.
uint32_t crc32_plain(uint32_t crc, const uint8_t* bytes, size_t size) {
  for (; size >= kSlices; bytes += kSlices, size -= kSlices) {
    uint32_t next = 0;
    for (size_t i = 0; i < kSlices; ++i) {
      const uint32_t mixed = i < 4 ? bytes[i] ^ ((crc >> (8 * i)) & 0xFF) : bytes[i];
      next ^= kSlice[kSlices - 1 - i][mixed];
    }
    crc = next;
  }
  for (; size > 0; ++bytes, --size) crc = (crc >> 8) ^ kSlice[0][(crc ^ *bytes) & 0xFF];
  return crc;
}

#if defined(__x86_64__)

// Folding: 64 bytes are worth the same as 16 that follow them, times a power of x modulo the CRC's
// polynomial, which carry-less multiplication gives. V. Gopal et al., "Fast CRC computation for
// generic polynomials using PCLMULQDQ instruction", Intel, 2009.
__attribute__((target("pclmul,sse4.1"))) __m128i fold(__m128i x, __m128i next, __m128i powers) {
  const __m128i low = _mm_clmulepi64_si128(x, powers, 0x00);
  const __m128i high = _mm_clmulepi64_si128(x, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Of at least 64 bytes.
__attribute__((target("pclmul,sse4.1"))) uint32_t crc32_folding(uint32_t crc, const uint8_t* bytes,
                                                                size_t size) {
  const __m128i over_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);  // x^(512-32), x^(512+32)
  const __m128i over_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);  // x^(128-32), x^(128+32)
  const auto load = [&](size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 16 * i));
  };
  __m128i x[4] = {_mm_xor_si128(load(0), _mm_cvtsi32_si128(static_cast<int>(crc))), load(1),
                  load(2), load(3)};
  for (bytes += 64, size -= 64; size >= 64; bytes += 64, size -= 64) {
    for (size_t i = 0; i < 4; ++i) x[i] = fold(x[i], load(i), over_64);
  }
  __m128i all = x[0];
  for (size_t i = 1; i < 4; ++i) all = fold(all, x[i], over_16);
  uint8_t rest[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), all);
  return crc32_plain(crc32_plain(0, rest, sizeof(rest)), bytes, size);
}

bool can_fold() { return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"); }

#else

uint32_t crc32_folding(uint32_t crc, const uint8_t* bytes, size_t size) {
  return crc32_plain(crc, bytes, size);
}
bool can_fold() { return false; }

#endif

}  // namespace

uint32_t crc32(uint32_t crc, const uint8_t* bytes, size_t size) {
  return ~(size >= 64 && can_fold() ? crc32_folding : crc32_plain)(~crc, bytes, size);
}

}  // namespace vpu
