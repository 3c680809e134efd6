#include "isa/cpu.h"

#include <sstream>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace vpu::isa {
namespace {

#if defined(__x86_64__)
// Linux gives a process the tile registers, 8 KiB per thread, only when it asks.
bool tiles_permitted() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  static const bool permitted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return permitted;
}

// GCC 12's builtin does not know these.
bool cpu_has_tiles(const std::string& feature) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const unsigned bit = feature == "amx_tile" ? 24 : 25;
  return (edx >> bit & 1) != 0 && tiles_permitted();
}
#endif

bool cpu_has(const std::string& feature) {
#if defined(__x86_64__)
  // The builtin wants literals. It also asks, by xgetbv, whether the system saves the registers.
#define VPU_FEATURE(name) \
  if (feature == name) return __builtin_cpu_supports(name) != 0
  VPU_FEATURE("avx2");
  VPU_FEATURE("avx512f");
  VPU_FEATURE("avx512bw");
  VPU_FEATURE("avx512dq");
  VPU_FEATURE("avx512vl");
  VPU_FEATURE("avx512vnni");
#undef VPU_FEATURE
  if (feature == "amx_tile" || feature == "amx_int8") return cpu_has_tiles(feature);
#elif defined(__aarch64__)
  if (feature == "asimddp") return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  if (feature == "i8mm") return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#else
  static_cast<void>(feature);
#endif
  return false;
}

}  // namespace

std::string cpu_lacks(const char* features) {
  std::istringstream words(features);
  std::string lacking;
  for (std::string feature; words >> feature;) {
    if (!cpu_has(feature)) lacking += (lacking.empty() ? "" : " ") + feature;
  }
  return lacking;
}

}  // namespace vpu::isa
