// VpuBackend, the delegate that runs the subgraphs VpuPartitioner made, inside ExecuTorch. It
// registers itself when this library is loaded.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "delegate/arguments.h"
#include "delegate/executorch_workers.h"
#include "delegate/trace.h"
#include "vpu/interpreter.h"
#include "vpu/turn.h"

namespace vpu {
namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

// One delegated subgraph. The vectors are sized once, so that execute allocates nothing.
struct Delegate {
  std::unique_ptr<Interpreter> interpreter;
  int max_workers = 1;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::atomic<bool> busy{false};      // guards the vectors
  std::vector<std::string> metadata;  // of the instructions, for the event tracer
};

Error to_error(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return Error::Ok;
    case Code::kIncompatible:
      return Error::DelegateInvalidCompatibility;
    case Code::kCorrupt:
      return Error::InvalidProgram;
    case Code::kUnavailable:
      return Error::NotSupported;
    case Code::kBadArgument:
      return Error::InvalidArgument;
    case Code::kBusy:
      return Error::InvalidState;
  }
  return Error::Internal;
}

Error report(const Status& status) {
  if (!status.ok()) ET_LOG(Error, "VpuBackend: %s", status.message().c_str());
  return to_error(status);
}

Error out_of_memory(const std::exception& exception) {
  ET_LOG(Error, "VpuBackend: %s", exception.what());
  return Error::MemoryAllocationFailed;
}

Status load(const FreeableBuffer& processed, std::unique_ptr<Delegate>* out) {
  auto delegate = std::make_unique<Delegate>();
  delegate->max_workers = pool_size();
  LoadOptions options;
  options.max_workers = delegate->max_workers;
  VPU_RETURN_IF_ERROR(
      Interpreter::load(processed.data(), processed.size(), options, &delegate->interpreter));
  delegate->inputs.resize(delegate->interpreter->inputs().size());
  delegate->outputs.resize(delegate->interpreter->outputs().size());
  for (const InstructionInfo& instruction : delegate->interpreter->instructions()) {
    delegate->metadata.push_back(profile_metadata(instruction));
  }
  *out = std::move(delegate);
  return {};
}

// ExecuTorch passes the inputs, then the outputs.
Status bind(Delegate* delegate, Span<EValue*> values) {
  const std::vector<ArgumentInfo>& inputs = delegate->interpreter->inputs();
  const std::vector<ArgumentInfo>& outputs = delegate->interpreter->outputs();
  if (values.size() != inputs.size() + outputs.size()) {
    return error(Code::kBadArgument, "expected %zu inputs and %zu outputs, got %zu values",
                 inputs.size(), outputs.size(), values.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    VPU_RETURN_IF_ERROR(check_argument(*values[i], inputs[i], "input", i));
    delegate->inputs[i] = values[i]->toTensor().const_data_ptr();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    EValue& value = *values[inputs.size() + i];
    VPU_RETURN_IF_ERROR(check_argument(value, outputs[i], "output", i));
    delegate->outputs[i] = value.toTensor().mutable_data_ptr();
  }
  return {};
}

class VpuBackend final : public BackendInterface {
 public:
  // Always: an instruction set that is asked for but missing is told by init, in words.
  bool is_available() const override { return true; }

  // Of `processed` nothing is needed after this.
  Result<DelegateHandle*> init(BackendInitContext&, FreeableBuffer* processed,
                               ArrayRef<CompileSpec>) const override try {
    std::unique_ptr<Delegate> delegate;
    const Error failure = report(load(*processed, &delegate));
    if (failure != Error::Ok) return failure;
    processed->Free();
    return static_cast<DelegateHandle*>(delegate.release());
  } catch (const std::exception& exception) {
    return out_of_memory(exception);
  }

  Error execute(BackendExecutionContext& context, DelegateHandle* handle,
                Span<EValue*> values) const override try {
    auto* delegate = static_cast<Delegate*>(handle);
    const Turn turn(&delegate->busy);
    Error failure = report(turn.status());
    if (failure != Error::Ok) return failure;
    failure = report(bind(delegate, values));
    if (failure != Error::Ok) return failure;
    Interpreter& interpreter = *delegate->interpreter;
    ExecutorchWorkers workers(delegate->max_workers);
    if (context.event_tracer() == nullptr) {
      return report(
          interpreter.execute(delegate->inputs.data(), delegate->outputs.data(), workers));
    } else {
      TraceObserver observer(interpreter, delegate->metadata, context.event_tracer());
      return report(interpreter.execute(delegate->inputs.data(), delegate->outputs.data(), workers,
                                        &observer));
    }
  } catch (const std::exception& exception) {
    return out_of_memory(exception);
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Delegate*>(handle); }
};

const bool registered = [] {
  static VpuBackend backend;
  const Error failure = executorch::runtime::register_backend({"VpuBackend", &backend});
  if (failure != Error::Ok) ET_LOG(Error, "VpuBackend: ExecuTorch refused to register it");
  return failure == Error::Ok;
}();

}  // namespace
}  // namespace vpu
