// What an instruction's kernel is to the interpreter. One file in kernels/ops/ per instruction
// implements Kernel, reads its schema table once in a prepare function, and registers that function
// with VPU_KERNEL. Nothing else lists kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "vpu/packed_memory.h"
#include "vpu/status.h"
#include "vpu/workers.h"
#include "vpu_generated.h"

namespace vpu {

namespace isa {
struct Isa;  // the instruction set the program runs on: isa/isa.h
}

// A tensor as an instruction sees it when it is prepared.
struct TensorInfo {
  schema::DType dtype = schema::DType_Int8;
  std::vector<int32_t> shape;      // physical, row-major; every dimension >= 1
  int8_t zero_point = 0;           // int8 only
  const void* constant = nullptr;  // the data, for a constant; null otherwise. It lives as long as
                                   // the program; of an input that is packed, until prepare ends

  int64_t elements() const;
  size_t bytes() const;
};

// The highest rank a tensor of a program may have; the interpreter refuses programs with more.
constexpr size_t kMaxRank = 8;

// An instruction whose operands were resolved and bounds-checked: every index is valid, no constant
// reaches past the blob, shapes have at most kMaxRank dimensions of at least 1 and at most
// INT32_MAX elements, `instruction.op()` is not null. What relates the operands to each other (how
// many there are, ranks, dtypes, parameters in range) is for prepare to check: it answers a Status
// naming what is wrong and never trusts a field. The interpreter puts the instruction's index and
// op before it.
struct PrepareContext {
  const schema::Instruction& instruction;
  std::vector<TensorInfo> inputs;
  TensorInfo output;
  const isa::Isa& isa;
  PackedMemory& memory;                    // for what the kernel packs
  const std::vector<TensorInfo>& tensors;  // of the whole program

  // The tensor a field of the instruction's table names (such as Concat.tables); null if there is
  // no such tensor.
  const TensorInfo* tensor(int64_t index) const {
    const bool valid = index >= 0 && static_cast<uint64_t>(index) < tensors.size();
    return valid ? &tensors[static_cast<size_t>(index)] : nullptr;
  }
};

// Arena, scratch and packed constants start on a cache line.
constexpr size_t kAlignment = 64;
constexpr size_t align_up(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

// Where an instruction's operands are while it runs. The output overlaps no input but the one that
// the kernel is registered to overwrite, which it may be, exactly.
struct RunContext {
  const void* const* inputs;
  void* output;
  Workers& workers;
  std::byte* scratch;  // aligned; piece t starts at scratch + t * align_up(scratch_bytes())

  template <class T>
  const T* input(size_t i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <class T>
  T* out() const {
    return static_cast<T*>(output);
  }
};

// A prepared instruction. `run` allocates nothing, keeps no state, and gives the same bits whatever
// the worker count.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const RunContext& context) const = 0;
  virtual size_t scratch_bytes() const { return 0; }     // per task
  virtual int64_t macs_per_output() const { return 0; }  // products summed for one element
  // About how many operations run does for an element of the output: what a limit is on.
  virtual double work_per_output() const { return 1 + static_cast<double>(macs_per_output()); }
};

using KernelPtr = std::unique_ptr<Kernel>;
using PrepareFn = Status (*)(const PrepareContext& context, KernelPtr* kernel);

constexpr size_t kNoInput = SIZE_MAX;

struct KernelEntry {
  PrepareFn prepare = nullptr;   // null if nothing is registered
  size_t overwrites = kNoInput;  // the input whose memory the output may have
  uint32_t packed = 0;           // bit k: prepare packs input k, a constant; run does not read it

  bool packs(size_t input) const { return input < 32 && (packed >> input & 1) != 0; }
};

KernelEntry find_kernel(schema::Op op);

struct KernelRegistration {
  KernelRegistration(schema::Op op, PrepareFn prepare, size_t overwrites = kNoInput,
                     uint32_t packed = 0);
};

// VPU_KERNEL(OpName, prepare[, overwrites[, packed]])
#define VPU_KERNEL(OpName, ...)                                                            \
  static const ::vpu::KernelRegistration registration_##OpName(::vpu::schema::Op_##OpName, \
                                                               __VA_ARGS__)

}  // namespace vpu
