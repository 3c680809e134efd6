// The table that VPU_KERNEL fills while the library is loaded.
#include <array>

#include "vpu/kernel.h"

namespace vpu {
namespace {

using Table = std::array<KernelEntry, schema::Op_MAX + 1>;

// A function's static, because registrations run in no particular order before main.
Table& table() {
  static Table kernels{};
  return kernels;
}

}  // namespace

KernelEntry find_kernel(schema::Op op) { return op < table().size() ? table()[op] : KernelEntry{}; }

KernelRegistration::KernelRegistration(schema::Op op, PrepareFn prepare, size_t overwrites,
                                       uint32_t packed) {
  table()[op] = {prepare, overwrites, packed};
}

}  // namespace vpu
