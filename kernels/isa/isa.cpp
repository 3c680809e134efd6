#include "isa/isa.h"

#include <cstdlib>
#include <iterator>

#include "isa/cpu.h"

// Which architecture's sets this build has the code of.
#define VPU_ISA_IF_ANY(isa) &isa
#if defined(__x86_64__) || defined(VPU_EMULATE)
#define VPU_ISA_IF_X86_64(isa) &isa
#else
#define VPU_ISA_IF_X86_64(isa) nullptr
#endif
#if defined(__aarch64__)
#define VPU_ISA_IF_AARCH64(isa) &isa
#else
#define VPU_ISA_IF_AARCH64(isa) nullptr
#endif

// Of the architecture that is emulated (tests/emulation), the sets need nothing of the CPU.
#if defined(VPU_EMULATE)
#define VPU_EMULATED "X86_64"
#else
#define VPU_EMULATED "none"
#endif

namespace vpu::isa {

#define VPU_ISA(architecture, name, needs) extern const Isa name##_isa;
#include "isa/registry.inc"
#undef VPU_ISA

namespace {

struct Row {
  const char* name;
  const char* architecture;
  const char* needs;
  const Isa* isa;  // null where it is not built
};

constexpr Row kRegistry[] = {
#define VPU_ISA(architecture, name, needs) \
  {#name, #architecture, needs, VPU_ISA_IF_##architecture(name##_isa)},
#include "isa/registry.inc"
#undef VPU_ISA
};

// Empty where the set can run.
std::string why_not(const Row& row) {
  if (row.isa == nullptr) return std::string("it is for the architecture ") + row.architecture;
  if (std::string(row.architecture) == VPU_EMULATED) return "";
  const std::string lacks = cpu_lacks(row.needs);
  return lacks.empty() ? "" : "this CPU or its operating system lacks " + lacks;
}

std::string available() {
  std::string names;
  for (const Row& row : kRegistry) {
    if (why_not(row).empty()) names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return names;
}

}  // namespace

Status choose_isa(const std::string& requested, const Isa** out) {
  std::string name = requested;
  if (name.empty()) {
    const char* variable = std::getenv("VPU_ISA");
    if (variable != nullptr) name = variable;
  }
  std::string reason = "there is no such set";
  for (auto row = std::rbegin(kRegistry); row != std::rend(kRegistry); ++row) {
    if (!name.empty() && name != row->name) continue;
    reason = why_not(*row);
    if (reason.empty()) {
      *out = row->isa;
      return {};
    }
  }
  return error(Code::kUnavailable, "instruction set '%s' cannot be used: %s; available here: %s",
               name.c_str(), reason.c_str(), available().c_str());
}

std::vector<IsaStatus> list_isas() {
  std::vector<IsaStatus> list;
  for (const Row& row : kRegistry) {
    std::string reason = why_not(row);
    list.push_back({row.name, reason.empty(), std::move(reason)});
  }
  return list;
}

}  // namespace vpu::isa
