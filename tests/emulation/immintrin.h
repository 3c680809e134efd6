// The intrinsics that the x86 sets of kernels/isa use, in portable C++. In a build with VPU_EMULATE
// this header is found in place of the compiler's, so that those sets run on any CPU.
//
// It has only what they use; where a set comes to use another, add it. An intrinsic does what its
// instruction does, faults included: a masked load touches no byte that its mask leaves out, an
// aligned access aborts where it is not aligned.
#pragma once

#include <functional>

#include "lanes.h"

namespace vpu::emulation {

using __m128i = Register<16>;
using __m256 = Register<32>;
using __m256i = Register<32>;
using __m512 = Register<64>;
using __m512i = Register<64>;
using __mmask16 = uint16_t;
using __mmask32 = uint32_t;
using __mmask64 = uint64_t;

// ---- 128 bits.

inline __m128i _mm_loadu_si128(const void* x) { return load<16>(x); }
inline void _mm_storeu_si128(void* y, __m128i x) { store(y, x); }
inline __m128i _mm_loadl_epi64(const void* x) { return load_bytes<16>(0xFF, x); }
inline __m128i _mm_maskz_loadu_epi8(__mmask16 mask, const void* x) {
  return load_bytes<16>(mask, x);
}
inline void _mm_mask_storeu_epi8(void* y, __mmask16 mask, __m128i x) { store_bytes(y, mask, x); }
inline __m128i _mm_setzero_si128() { return {}; }
inline __m128i _mm_set1_epi8(int8_t x) { return set1<16>(x); }
inline __m128i _mm_set1_epi16(int16_t x) { return set1<16>(x); }
inline __m128i _mm_xor_si128(__m128i a, __m128i b) { return map<uint8_t>(std::bit_xor<>(), a, b); }
inline __m128i _mm_adds_epi16(__m128i a, __m128i b) { return map<int16_t>(add_saturated, a, b); }
inline __m128i _mm_max_epi8(__m128i a, __m128i b) { return map<int8_t>(greater<int8_t>, a, b); }
inline __m128i _mm_packs_epi32(__m128i a, __m128i b) { return pack<int32_t, int16_t>(a, b); }
inline __m128i _mm_packs_epi16(__m128i a, __m128i b) { return pack<int16_t, int8_t>(a, b); }
inline __m128i _mm_unpacklo_epi8(__m128i a, __m128i b) { return unpack<int8_t, 0>(a, b); }
inline __m128i _mm_unpackhi_epi8(__m128i a, __m128i b) { return unpack<int8_t, 1>(a, b); }
inline __m128i _mm_srli_si128(__m128i x, int count) {
  __m128i y{};
  std::memcpy(y.bytes, x.bytes + count, static_cast<size_t>(16 - count));
  return y;
}
inline __m128i _mm_cvtepi8_epi16(__m128i x) { return convert<int8_t, int16_t>(part<8>(x, 0)); }

// ---- 256 bits.

inline __m256i _mm256_loadu_si256(const void* x) { return load<32>(x); }
inline void _mm256_storeu_si256(void* y, __m256i x) { store(y, x); }
inline __m256 _mm256_loadu_ps(const void* x) { return load<32>(x); }
inline __m256i _mm256_maskz_loadu_epi8(__mmask32 mask, const void* x) {
  return load_bytes<32>(mask, x);
}
inline void _mm256_mask_storeu_epi8(void* y, __mmask32 mask, __m256i x) { store_bytes(y, mask, x); }
inline __m256i _mm256_setzero_si256() { return {}; }
inline __m256i _mm256_set1_epi32(int32_t x) { return set1<32>(x); }
inline __m256 _mm256_set1_ps(float x) { return set1<32>(x); }
inline __m128i _mm256_castsi256_si128(__m256i x) { return part<16>(x, 0); }
inline __m128i _mm256_extracti128_si256(__m256i x, int index) { return part<16>(x, index); }
inline __m256i _mm256_add_epi32(__m256i a, __m256i b) { return map<uint32_t>(std::plus<>(), a, b); }
inline __m256i _mm256_sub_epi32(__m256i a, __m256i b) {
  return map<uint32_t>(std::minus<>(), a, b);
}
inline __m256i _mm256_madd_epi16(__m256i a, __m256i b) { return multiply_pairs(a, b); }
inline __m256 _mm256_add_ps(__m256 a, __m256 b) { return map<float>(std::plus<>(), a, b); }
inline __m256 _mm256_mul_ps(__m256 a, __m256 b) { return map<float>(std::multiplies<>(), a, b); }
inline __m256 _mm256_min_ps(__m256 a, __m256 b) { return map<float>(lesser<float>, a, b); }
inline __m256i _mm256_cvtps_epi32(__m256 x) { return round_to_int32(x); }
inline __m256 _mm256_cvtepi32_ps(__m256i x) { return convert<int32_t, float>(x); }
inline __m256i _mm256_cvtepi8_epi16(__m128i x) { return convert<int8_t, int16_t>(x); }
inline __m256i _mm256_cvtepi8_epi32(__m128i x) { return convert<int8_t, int32_t>(part<8>(x, 0)); }

// ---- 512 bits.

inline __m512i _mm512_loadu_si512(const void* x) { return load<64>(x); }
inline void _mm512_storeu_si512(void* y, __m512i x) { store(y, x); }
inline __m512 _mm512_loadu_ps(const void* x) { return load<64>(x); }
inline __m512i _mm512_load_si512(const void* x) { return load<64>(aligned(x)); }
inline void _mm512_store_si512(void* y, __m512i x) { store(aligned(y), x); }
inline __m512i _mm512_maskz_loadu_epi8(__mmask64 mask, const void* x) {
  return load_bytes<64>(mask, x);
}
inline void _mm512_mask_storeu_epi8(void* y, __mmask64 mask, __m512i x) { store_bytes(y, mask, x); }
inline __m512i _mm512_setzero_si512() { return {}; }
inline __m512i _mm512_set1_epi8(int8_t x) { return set1<64>(x); }
inline __m512i _mm512_set1_epi16(int16_t x) { return set1<64>(x); }
inline __m512i _mm512_set1_epi32(int32_t x) { return set1<64>(x); }
inline __m512 _mm512_set1_ps(float x) { return set1<64>(x); }
template <class... Int>
inline __m512i _mm512_setr_epi32(Int... x) {
  static_assert(sizeof...(x) == 16);
  const int32_t lanes[] = {x...};
  return load<64>(lanes);
}
inline __m512 _mm512_castsi512_ps(__m512i x) { return x; }
inline __m128i _mm512_castsi512_si128(__m512i x) { return part<16>(x, 0); }
inline __m256i _mm512_castsi512_si256(__m512i x) { return part<32>(x, 0); }
inline __m128i _mm512_extracti32x4_epi32(__m512i x, int index) { return part<16>(x, index); }
inline __m256i _mm512_extracti64x4_epi64(__m512i x, int index) { return part<32>(x, index); }
inline __m512i _mm512_castsi256_si512(__m256i x) {
  __m512i y{};
  std::memcpy(y.bytes, x.bytes, sizeof(x.bytes));
  return y;
}
inline __m512i _mm512_inserti64x4(__m512i a, __m256i b, int index) {
  std::memcpy(a.bytes + 32 * index, b.bytes, sizeof(b.bytes));
  return a;
}
inline __m512i _mm512_xor_si512(__m512i a, __m512i b) {
  return map<uint64_t>(std::bit_xor<>(), a, b);
}
inline __m512i _mm512_add_epi32(__m512i a, __m512i b) { return map<uint32_t>(std::plus<>(), a, b); }
inline __m512i _mm512_adds_epi16(__m512i a, __m512i b) { return map<int16_t>(add_saturated, a, b); }
inline __m512i _mm512_max_epi8(__m512i a, __m512i b) { return map<int8_t>(greater<int8_t>, a, b); }
inline __m512i _mm512_min_epi8(__m512i a, __m512i b) { return map<int8_t>(lesser<int8_t>, a, b); }
inline __m512 _mm512_add_ps(__m512 a, __m512 b) { return map<float>(std::plus<>(), a, b); }
inline __m512 _mm512_sub_ps(__m512 a, __m512 b) { return map<float>(std::minus<>(), a, b); }
inline __m512 _mm512_mul_ps(__m512 a, __m512 b) { return map<float>(std::multiplies<>(), a, b); }
inline __m512 _mm512_min_ps(__m512 a, __m512 b) { return map<float>(lesser<float>, a, b); }
inline __m512i _mm512_cvtps_epi32(__m512 x) { return round_to_int32(x); }
inline __m512 _mm512_cvtepi32_ps(__m512i x) { return convert<int32_t, float>(x); }
inline __m512i _mm512_cvtepi8_epi32(__m128i x) { return convert<int8_t, int32_t>(x); }
inline __m512i _mm512_packs_epi32(__m512i a, __m512i b) { return pack<int32_t, int16_t>(a, b); }
inline __m512i _mm512_packs_epi16(__m512i a, __m512i b) { return pack<int16_t, int8_t>(a, b); }
inline __m512i _mm512_unpacklo_epi8(__m512i a, __m512i b) { return unpack<int8_t, 0>(a, b); }
inline __m512i _mm512_unpackhi_epi8(__m512i a, __m512i b) { return unpack<int8_t, 1>(a, b); }
inline __m512i _mm512_unpacklo_epi16(__m512i a, __m512i b) { return unpack<int16_t, 0>(a, b); }
inline __m512i _mm512_unpackhi_epi16(__m512i a, __m512i b) { return unpack<int16_t, 1>(a, b); }
inline __m512i _mm512_maskz_expand_epi8(__mmask64 mask, __m512i x) {
  __m512i y{};
  for (int i = 0, from = 0; i < 64; ++i) {
    if (mask >> i & 1) y.bytes[i] = x.bytes[from++];
  }
  return y;
}
inline __m512i _mm512_permutexvar_epi32(__m512i order, __m512i x) {
  const Lanes<int32_t, 64> from(x);
  return map<int32_t>([&from](int i) { return from[i & 15]; }, order);
}
inline __m512i _mm512_permutex2var_epi8(__m512i a, __m512i order, __m512i b) {
  const auto pick = [&a, &b](int i) { return (i & 64 ? b : a).bytes[i & 63]; };
  return map<uint8_t>(pick, order);
}
inline __mmask64 _mm512_movepi8_mask(__m512i x) {
  __mmask64 mask = 0;
  for (int i = 0; i < 64; ++i) mask |= __mmask64{x.bytes[i]} >> 7 << i;
  return mask;
}
inline __m512i _mm512_mask_blend_epi8(__mmask64 mask, __m512i a, __m512i b) {
  for (int i = 0; i < 64; ++i) {
    if (mask >> i & 1) a.bytes[i] = b.bytes[i];
  }
  return a;
}

// ---- Caches.

constexpr int _MM_HINT_T1 = 2;
inline void _mm_prefetch(const void*, int) {}

}  // namespace vpu::emulation

using namespace vpu::emulation;  // as those of the compiler, they are global
