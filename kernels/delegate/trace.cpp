#include "delegate/trace.h"

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/platform/platform.h>

#include <array>

#include "delegate/scalar_type.h"

namespace vpu {
namespace {

namespace runtime = executorch::runtime;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;

// An event has an id or a name, never both.
const char* event_name(const InstructionInfo& instruction) {
  return instruction.debug_id < 0 ? instruction.op.c_str() : nullptr;
}

runtime::DebugHandle event_id(const InstructionInfo& instruction) {
  const int32_t id = instruction.debug_id;
  return static_cast<runtime::DebugHandle>(id < 0 ? runtime::kUnsetDelegateDebugIntId : id);
}

}  // namespace

std::string profile_metadata(const InstructionInfo& instruction) {
  return instruction.op + "\t" + instruction.name + "\t" + std::to_string(instruction.macs);
}

TraceObserver::TraceObserver(const Interpreter& interpreter,
                             const std::vector<std::string>& metadata, runtime::EventTracer* tracer)
    : interpreter_(interpreter),
      metadata_(metadata),
      tracer_(tracer),
      log_outputs_(tracer->event_tracer_debug_level() >=
                   runtime::EventTracerDebugLogLevel::kIntermediateOutputs) {}

void TraceObserver::before(size_t) { start_ = runtime::pal_current_ticks(); }

void TraceObserver::after(size_t index, const void* output) {
  const et_timestamp_t end = runtime::pal_current_ticks();
  const InstructionInfo& instruction = interpreter_.instructions()[index];
  const std::string& metadata = metadata_[index];
  runtime::event_tracer_log_profiling_delegate(tracer_, event_name(instruction),
                                               event_id(instruction), start_, end, metadata.data(),
                                               metadata.size());
  if (log_outputs_) log_output(instruction, interpreter_.output_of(index), output);
}

void TraceObserver::log_output(const InstructionInfo& instruction, const TensorInfo& tensor,
                               const void* data) {
  const size_t rank = tensor.shape.size();
  std::array<TensorImpl::SizesType, kMaxRank> sizes{};
  std::array<TensorImpl::DimOrderType, kMaxRank> dim_order{};
  std::array<TensorImpl::StridesType, kMaxRank> strides{};
  TensorImpl::StridesType stride = 1;
  for (size_t d = rank; d-- > 0;) {
    sizes[d] = tensor.shape[d];
    dim_order[d] = static_cast<TensorImpl::DimOrderType>(d);
    strides[d] = stride;
    stride *= tensor.shape[d];
  }
  TensorImpl impl(scalar_type(tensor.dtype), static_cast<ssize_t>(rank), sizes.data(),
                  const_cast<void*>(data), dim_order.data(), strides.data());
  runtime::event_tracer_log_output_delegate(tracer_, event_name(instruction), event_id(instruction),
                                            Tensor(&impl));
}

}  // namespace vpu
