// Reports each instruction to ExecuTorch's event tracer.
#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <string>
#include <vector>

#include "vpu/interpreter.h"

namespace vpu {

// The metadata attached to each profiling event: op, source ops and multiply-accumulates, separated
// by tabs. "Conv2d\tconv2d+relu\t115605504".
std::string profile_metadata(const InstructionInfo& instruction);

// Logs real start and end times under the instruction's debug id, which Inspector joins to source
// ops; at debug level kIntermediateOutputs also every output, as it lies in memory.
class TraceObserver final : public Observer {
 public:
  TraceObserver(const Interpreter& interpreter, const std::vector<std::string>& metadata,
                executorch::runtime::EventTracer* tracer);
  void before(size_t instruction) override;
  void after(size_t instruction, const void* output) override;

 private:
  void log_output(const InstructionInfo& instruction, const TensorInfo& tensor, const void* data);

  const Interpreter& interpreter_;
  const std::vector<std::string>& metadata_;
  executorch::runtime::EventTracer* tracer_;
  bool log_outputs_;
  et_timestamp_t start_ = 0;
};

}  // namespace vpu
