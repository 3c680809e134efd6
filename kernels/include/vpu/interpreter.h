// The VPU interpreter: loads a blob, runs it. Knows nothing of ExecuTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "vpu/export.h"
#include "vpu/kernel.h"
#include "vpu/status.h"
#include "vpu/workers.h"

namespace vpu {

// One input or output as the caller passes it.
struct ArgumentInfo {
  schema::DType dtype;
  std::vector<int32_t> sizes;      // logical
  std::vector<uint8_t> dim_order;  // physical dimension i is logical dimension dim_order[i]
  float scale;                     // int8 only
  int8_t zero_point;               // int8 only
  std::string name;
  size_t bytes;
};

struct InstructionInfo {
  std::string op;    // the schema's name: "Conv2d"
  std::string name;  // the source ops: "conv2d+relu"
  int32_t debug_id;
  int64_t macs;  // multiply-accumulates, 0 where the notion does not apply
};

// Called around every instruction, for profiles. May be null.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(size_t instruction) = 0;
  virtual void after(size_t instruction, const void* output) = 0;
};

struct LoadOptions {
  std::string isa;      // empty: the VPU_ISA environment variable, else the best this CPU has
  int max_workers = 1;  // scratch is sized for this many tasks
  // Bytes that loading may take: arena, scratch, tables, and constants as often as instructions
  // read and pack them. 0: the VPU_MEMORY_LIMIT environment variable, else kDefaultMemory and
  // kDefaultPerByte for each byte of the blob.
  uint64_t memory_limit = 0;
  // Operations of one execution: multiply-accumulates, cells of pooling windows, values written,
  // and bytes that a convolution copies, in which instruction sets differ. 0: the VPU_WORK_LIMIT
  // environment variable, else none.
  uint64_t work_limit = 0;

  static constexpr uint64_t kDefaultMemory = uint64_t{1} << 30;
  static constexpr uint64_t kDefaultPerByte = 8;
};

// Immutable after load except for its arena: one execute at a time, another meanwhile is refused.
class VPU_EXPORT Interpreter {
 public:
  // `blob` is not needed any more once loaded. One that is not 16-byte aligned is copied meanwhile.
  // Refuses, with words, anything it cannot run safely: a foreign, truncated, damaged or
  // inconsistent blob, another version, one beyond a limit.
  static Status load(const void* blob, size_t size, const LoadOptions& options,
                     std::unique_ptr<Interpreter>* out);
  ~Interpreter();

  const std::vector<ArgumentInfo>& inputs() const;
  const std::vector<ArgumentInfo>& outputs() const;
  const std::vector<InstructionInfo>& instructions() const;
  const TensorInfo& output_of(size_t instruction) const;
  const char* isa() const;
  size_t arena_bytes() const;

  // One pointer per argument, in order; sizes and dim orders are the caller's to match with
  // inputs() and outputs(). No output may overlap an input or another output. Uses at most
  // LoadOptions::max_workers of `workers`. Allocates nothing.
  // kBusy, and nothing is done, while another thread executes it.
  Status execute(const void* const* inputs, void* const* outputs, Workers& workers,
                 Observer* observer = nullptr);

 private:
  struct Impl;
  explicit Interpreter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace vpu
