// The table that VPU_KERNEL fills while the library is loaded.
#include <array>

#include "vpu/kernel.h"

namespace vpu {
namespace {

using Table = std::array<PrepareFn, schema::Op_MAX + 1>;

// A function's static, because registrations run in no particular order before main.
Table& table() {
  static Table kernels{};
  return kernels;
}

}  // namespace

PrepareFn find_kernel(schema::Op op) { return op < table().size() ? table()[op] : nullptr; }

KernelRegistration::KernelRegistration(schema::Op op, PrepareFn prepare) { table()[op] = prepare; }

}  // namespace vpu
