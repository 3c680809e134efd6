#include "capi/vpu.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "capi/thread_workers.h"
#include "isa/isa.h"
#include "vpu/interpreter.h"
#include "vpu/turn.h"

struct vpu_program {
  std::unique_ptr<vpu::Interpreter> interpreter;
  std::unique_ptr<vpu::ThreadWorkers> workers;  // null until an execution asks for several
  int max_threads = 1;
  std::atomic<bool> busy{false};
};

namespace {

static_assert(VPU_INT8 == static_cast<int>(vpu::schema::DType_Int8));
static_assert(VPU_INT32 == static_cast<int>(vpu::schema::DType_Int32));
static_assert(VPU_FLOAT32 == static_cast<int>(vpu::schema::DType_Float32));
static_assert(VPU_INCOMPATIBLE == static_cast<int>(vpu::Code::kIncompatible));
static_assert(VPU_BAD_ARGUMENT == static_cast<int>(vpu::Code::kBadArgument));
static_assert(VPU_BUSY == static_cast<int>(vpu::Code::kBusy));

thread_local std::string last_error;

vpu_code fail(const vpu::Status& status) {
  last_error = status.message();
  return static_cast<vpu_code>(status.code());
}

vpu_code bad_argument(const char* message) {
  return fail(vpu::Status(vpu::Code::kBadArgument, message));
}

// No exception may leave a C function; the only ones there can be are a lack of memory or threads.
template <class F>
vpu_code guarded(F&& body) {
  try {
    return body();
  } catch (const std::exception& exception) {
    return fail(vpu::Status(vpu::Code::kUnavailable, exception.what()));
  }
}

using Clock = std::chrono::steady_clock;

int64_t nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

// As many as `threads` and the program allow.
vpu::Workers& workers_of(vpu_program* program, int32_t threads) {
  static vpu::SerialWorkers serial;
  const int count = std::clamp(threads, 1, program->max_threads);
  if (count == 1) return serial;
  if (program->workers == nullptr || program->workers->count() != count) {
    program->workers.reset();
    program->workers = std::make_unique<vpu::ThreadWorkers>(count);
  }
  return *program->workers;
}

class Recorder final : public vpu::Observer {
 public:
  Recorder(const vpu::Interpreter& interpreter, const vpu_trace& trace)
      : interpreter_(interpreter), trace_(trace) {}

  void before(size_t) override { start_ = Clock::now(); }

  void after(size_t instruction, const void* output) override {
    const int64_t time = nanoseconds_since(start_);
    if (trace_.nanoseconds != nullptr) trace_.nanoseconds[instruction] = time;
    if (trace_.outputs != nullptr && trace_.outputs[instruction] != nullptr) {
      std::memcpy(trace_.outputs[instruction], output, interpreter_.output_of(instruction).bytes());
    }
  }

 private:
  const vpu::Interpreter& interpreter_;
  const vpu_trace& trace_;
  Clock::time_point start_;
};

vpu_code argument_at(const std::vector<vpu::ArgumentInfo>& arguments, size_t index,
                     vpu_argument* out) {
  if (index >= arguments.size()) return bad_argument("there is no input or output of that index");
  const vpu::ArgumentInfo& a = arguments[index];
  *out = {a.name.c_str(), a.sizes.data(), a.dim_order.data(),
          a.sizes.size(), a.bytes,        static_cast<vpu_dtype>(a.dtype),
          a.zero_point,   a.scale};
  return VPU_OK;
}

}  // namespace

const char* vpu_version(void) { return VPU_VERSION; }

const char* vpu_last_error(void) { return last_error.c_str(); }

size_t vpu_isa_count(void) { return vpu::isa::list_isas().size(); }

vpu_code vpu_isa_at(size_t index, vpu_isa* isa) {
  return guarded([&] {
    thread_local std::string reason;
    const std::vector<vpu::isa::IsaStatus> list = vpu::isa::list_isas();
    if (index >= list.size()) return bad_argument("there is no instruction set of that index");
    reason = list[index].reason;
    *isa = {list[index].name, reason.c_str(), list[index].available ? 1 : 0};
    return VPU_OK;
  });
}

vpu_code vpu_isa_peak(const char* isa, int64_t iterations, int64_t* macs, int64_t* nanoseconds) {
  return guarded([&] {
    const vpu::isa::Isa* chosen = nullptr;
    const vpu::Status status = vpu::isa::choose_isa(isa == nullptr ? "" : isa, &chosen);
    if (!status.ok()) return fail(status);
    const Clock::time_point start = Clock::now();
    *macs = chosen->peak == nullptr ? 0 : chosen->peak(iterations);
    *nanoseconds = nanoseconds_since(start);
    return VPU_OK;
  });
}

vpu_code vpu_load(const void* blob, size_t size, const char* isa, int32_t max_threads,
                  vpu_program** program) {
  const vpu_limits defaults{0, 0};
  return vpu_load_within(blob, size, isa, max_threads, &defaults, program);
}

vpu_code vpu_load_within(const void* blob, size_t size, const char* isa, int32_t max_threads,
                         const vpu_limits* limits, vpu_program** program) {
  return guarded([&] {
    auto loaded = std::make_unique<vpu_program>();
    loaded->max_threads = std::max(max_threads, 1);
    vpu::LoadOptions options;
    if (isa != nullptr) options.isa = isa;
    options.max_workers = loaded->max_threads;
    options.memory_limit = limits->memory;
    options.work_limit = limits->work;
    const vpu::Status status = vpu::Interpreter::load(blob, size, options, &loaded->interpreter);
    if (!status.ok()) return fail(status);
    *program = loaded.release();
    return VPU_OK;
  });
}

void vpu_destroy(vpu_program* program) { delete program; }

const char* vpu_isa_of(const vpu_program* program) { return program->interpreter->isa(); }

size_t vpu_arena_bytes(const vpu_program* program) { return program->interpreter->arena_bytes(); }

size_t vpu_input_count(const vpu_program* program) { return program->interpreter->inputs().size(); }

size_t vpu_output_count(const vpu_program* program) {
  return program->interpreter->outputs().size();
}

size_t vpu_instruction_count(const vpu_program* program) {
  return program->interpreter->instructions().size();
}

vpu_code vpu_input_at(const vpu_program* program, size_t index, vpu_argument* argument) {
  return argument_at(program->interpreter->inputs(), index, argument);
}

vpu_code vpu_output_at(const vpu_program* program, size_t index, vpu_argument* argument) {
  return argument_at(program->interpreter->outputs(), index, argument);
}

vpu_code vpu_instruction_at(const vpu_program* program, size_t index,
                            vpu_instruction* instruction) {
  const std::vector<vpu::InstructionInfo>& list = program->interpreter->instructions();
  if (index >= list.size()) return bad_argument("there is no instruction of that index");
  const vpu::InstructionInfo& i = list[index];
  const vpu::TensorInfo& output = program->interpreter->output_of(index);
  *instruction = {i.op.c_str(),        i.name.c_str(), output.shape.data(),
                  output.shape.size(), output.bytes(), static_cast<vpu_dtype>(output.dtype),
                  output.zero_point,   i.debug_id,     i.macs};
  return VPU_OK;
}

vpu_code vpu_execute(vpu_program* program, const void* const* inputs, void* const* outputs,
                     int32_t threads, const vpu_trace* trace) {
  return guarded([&] {
    const vpu::Turn turn(&program->busy);
    if (!turn.status().ok()) return fail(turn.status());
    vpu::Workers& workers = workers_of(program, threads);
    vpu::Status status;
    if (trace == nullptr) {
      status = program->interpreter->execute(inputs, outputs, workers);
    } else {
      Recorder recorder(*program->interpreter, *trace);
      status = program->interpreter->execute(inputs, outputs, workers, &recorder);
    }
    return status.ok() ? VPU_OK : fail(status);
  });
}

vpu_code vpu_time(vpu_program* program, const void* const* inputs, void* const* outputs,
                  int32_t threads, size_t runs, int64_t* nanoseconds) {
  return guarded([&] {
    const vpu::Turn turn(&program->busy);
    if (!turn.status().ok()) return fail(turn.status());
    vpu::Workers& workers = workers_of(program, threads);
    for (size_t i = 0; i < runs; ++i) {
      const vpu_trace trace{nanoseconds + i * vpu_instruction_count(program), nullptr};
      Recorder recorder(*program->interpreter, trace);
      const vpu::Status status = program->interpreter->execute(inputs, outputs, workers, &recorder);
      if (!status.ok()) return fail(status);
    }
    return VPU_OK;
  });
}
