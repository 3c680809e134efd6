#include "vpu/interpreter.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <new>

#include "interpreter/budget.h"
#include "interpreter/memory.h"
#include "interpreter/program.h"
#include "interpreter/program_memory.h"
#include "interpreter/team.h"
#include "isa/isa.h"
#include "vpu/turn.h"

namespace vpu {
namespace {

struct Step {
  KernelPtr kernel;
  size_t first_input;  // in Impl::operands
  size_t inputs;
  size_t output;  // in Impl::operands
};

// An operand that the caller passes: operands[operand] = argument `position`.
struct Binding {
  size_t operand;
  uint64_t position;
};

uint32_t input_count(const schema::Instruction& instruction) {
  return instruction.inputs() == nullptr ? 0 : instruction.inputs()->size();
}

// Null if the tensor is not a constant.
const void* in_blob(const Program& program, uint32_t tensor) {
  const Place& place = program.places[tensor];
  return place.storage == schema::Storage_Constant ? program.blob.constants + place.offset
                                                   : nullptr;
}

// Out of the blob, which need not outlive loading; but not those that kernels only pack.
void copy_constants(Program* program, PackedMemory* memory) {
  std::vector<bool> packed(program->tensors.size(), false);
  std::vector<bool> read(program->tensors.size(), false);
  for (const schema::Instruction* instruction : program->instructions) {
    const KernelEntry entry = find_kernel(instruction->op_type());
    for (uint32_t k = 0; k < input_count(*instruction); ++k) {
      (entry.packs(k) ? packed : read)[instruction->inputs()->Get(k)] = true;
    }
  }
  for (uint32_t i = 0; i < program->tensors.size(); ++i) {
    const void* constant = in_blob(*program, i);
    if (constant == nullptr || (packed[i] && !read[i])) continue;
    const uint64_t bytes = program->places[i].bytes;
    program->tensors[i].constant = memory->pack<std::byte>(
        static_cast<int64_t>(bytes),
        [&](std::byte* copy) { std::memcpy(copy, constant, static_cast<size_t>(bytes)); });
  }
}

// A limit is what the caller asks for, else the environment variable, else `otherwise`.
Status choose_limit(uint64_t asked, const char* variable, uint64_t otherwise, uint64_t* limit) {
  *limit = asked != 0 ? asked : otherwise;
  const char* text = std::getenv(variable);
  if (asked != 0 || text == nullptr || *text == '\0') return {};
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value == 0) {
    return error(Code::kBadArgument, "%s must be a whole number of at least 1, not '%s'", variable,
                 text);
  }
  *limit = value;
  return {};
}

}  // namespace

struct Interpreter::Impl {
  const isa::Isa* isa = nullptr;
  std::unique_ptr<Team> team;
  std::vector<ArgumentInfo> inputs;
  std::vector<ArgumentInfo> outputs;
  std::vector<InstructionInfo> instructions;
  std::vector<TensorInfo> results;  // of the instructions
  std::unique_ptr<ProgramMemory> memory;
  size_t arena_size = 0;
  AlignedMemory arena;
  AlignedMemory scratch;
  std::vector<Step> steps;
  std::vector<void*> operands;  // of all steps; constants are among them, and never written
  std::vector<Binding> bound_inputs;
  std::vector<Binding> bound_outputs;
  double work = 0;  // of an execution
  std::atomic<bool> busy{false};

  Status load(const void* blob, size_t size, const LoadOptions& options);
  Status prepare(const Program& program, size_t index, size_t* scratch_bytes);
  Status check_work(const Program& program, size_t index, uint64_t limit) const;
  void add_operand(const Program& program, uint32_t tensor);
};

Status Interpreter::Impl::load(const void* data, size_t size, const LoadOptions& options) {
  uint64_t memory_limit = 0, work_limit = 0;
  const uint64_t most = LoadOptions::kDefaultMemory + LoadOptions::kDefaultPerByte * size;
  VPU_RETURN_IF_ERROR(choose_limit(options.memory_limit, "VPU_MEMORY_LIMIT", most, &memory_limit));
  VPU_RETURN_IF_ERROR(choose_limit(options.work_limit, "VPU_WORK_LIMIT", UINT64_MAX, &work_limit));
  Budget budget(memory_limit);
  AlignedMemory copy;
  if (reinterpret_cast<uintptr_t>(data) % kBlobAlignment != 0) {
    budget.spend(allocated_bytes(size));
    copy = allocate_aligned(size);
    if (copy == nullptr) throw std::bad_alloc();
    data = std::memcpy(copy.get(), data, size);
  }
  Blob blob;
  Program program;
  VPU_RETURN_IF_ERROR(open_blob(data, size, &blob));
  VPU_RETURN_IF_ERROR(read_program(blob, &budget, &program));
  VPU_RETURN_IF_ERROR(isa::choose_isa(options.isa, &isa));
  team = std::make_unique<Team>(std::max(options.max_workers, 1));

  arena_size = static_cast<size_t>(program.schema->arena_size());
  arena = allocate_aligned(arena_size);
  if (arena == nullptr) {
    return error(Code::kUnavailable, "no memory for the arena of %zu bytes", arena_size);
  }
  memory = std::make_unique<ProgramMemory>(blob.constants_size, &budget);
  copy_constants(&program, memory.get());
  size_t scratch_bytes = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    VPU_RETURN_IF_ERROR(prepare(program, i, &scratch_bytes));
    VPU_RETURN_IF_ERROR(check_work(program, i, work_limit));
  }
  memory->finish();
  const size_t workers = static_cast<size_t>(std::max(options.max_workers, 1));
  for (size_t i = 0; i < workers; ++i) budget.spend(align_up(scratch_bytes));
  const size_t all_scratch = align_up(scratch_bytes) * workers;
  budget.spend(allocated_bytes(all_scratch) - all_scratch);  // it cannot overflow: it is spent
  scratch = allocate_aligned(all_scratch);
  if (scratch == nullptr) {
    return error(Code::kUnavailable, "no memory for scratch: %zu times %zu bytes", workers,
                 align_up(scratch_bytes));
  }
  inputs = std::move(program.inputs);
  outputs = std::move(program.outputs);
  return {};
}

Status Interpreter::Impl::prepare(const Program& program, size_t index, size_t* scratch_bytes) {
  const schema::Instruction& instruction = *program.instructions[index];
  const KernelEntry entry = find_kernel(instruction.op_type());
  PrepareContext context{instruction, {},      program.tensors[instruction.output()],
                         *isa,        *memory, program.tensors};
  Step step{nullptr, operands.size(), input_count(instruction), 0};
  for (uint32_t k = 0; k < step.inputs; ++k) {
    const uint32_t tensor = instruction.inputs()->Get(k);
    context.inputs.push_back(program.tensors[tensor]);
    if (entry.packs(k)) context.inputs.back().constant = in_blob(program, tensor);
    if (context.inputs.back().constant != nullptr) memory->charge(program.places[tensor].bytes);
    add_operand(program, tensor);
  }
  step.output = operands.size();
  add_operand(program, instruction.output());

  const Status status = entry.prepare == nullptr
                            ? error(Code::kUnavailable, "this library has no kernel for it")
                            : entry.prepare(context, &step.kernel);
  if (!status.ok()) {
    return Status(status.code(), describe(program, index) + ": " + status.message());
  }
  work += static_cast<double>(context.output.elements()) * step.kernel->work_per_output();
  *scratch_bytes = std::max(*scratch_bytes, step.kernel->scratch_bytes());
  instructions.push_back({schema::EnumNameOp(instruction.op_type()),
                          instruction.name() == nullptr ? "" : instruction.name()->str(),
                          instruction.debug_id(),
                          context.output.elements() * step.kernel->macs_per_output()});
  results.push_back(std::move(context.output));
  steps.push_back(std::move(step));
  return {};
}

Status Interpreter::Impl::check_work(const Program& program, size_t index, uint64_t limit) const {
  if (limit == UINT64_MAX || work <= static_cast<double>(limit)) return {};
  return error(Code::kUnavailable,
               "an execution of the VPU program up to %s takes %.0f operations, more than its work "
               "limit of %" PRIu64 "; if the program is trusted, raise the limit (VPU_WORK_LIMIT)",
               describe(program, index).c_str(), work, limit);
}

void Interpreter::Impl::add_operand(const Program& program, uint32_t tensor) {
  const Place& place = program.places[tensor];
  void* address = nullptr;
  switch (place.storage) {
    case schema::Storage_Arena:
      address = arena.get() + place.offset;
      break;
    case schema::Storage_Constant:
      address = const_cast<void*>(program.tensors[tensor].constant);
      break;
    case schema::Storage_Input:
      bound_inputs.push_back({operands.size(), place.offset});
      break;
    case schema::Storage_Output:
      bound_outputs.push_back({operands.size(), place.offset});
      break;
  }
  operands.push_back(address);
}

Interpreter::Interpreter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Interpreter::~Interpreter() = default;

Status Interpreter::load(const void* blob, size_t size, const LoadOptions& options,
                         std::unique_ptr<Interpreter>* out) {
  try {
    auto impl = std::make_unique<Impl>();
    VPU_RETURN_IF_ERROR(impl->load(blob, size, options));
    out->reset(new Interpreter(std::move(impl)));
    return {};
  } catch (const Budget::Exceeded& exceeded) {
    return Status(Code::kUnavailable, exceeded.what());
  } catch (const std::bad_alloc&) {
    return Status(Code::kUnavailable, "no memory to prepare the VPU program");
  }
}

const std::vector<ArgumentInfo>& Interpreter::inputs() const { return impl_->inputs; }
const std::vector<ArgumentInfo>& Interpreter::outputs() const { return impl_->outputs; }
const std::vector<InstructionInfo>& Interpreter::instructions() const {
  return impl_->instructions;
}
const TensorInfo& Interpreter::output_of(size_t instruction) const {
  return impl_->results[instruction];
}
const char* Interpreter::isa() const { return impl_->isa->name; }
size_t Interpreter::arena_bytes() const { return impl_->arena_size; }

Status Interpreter::execute(const void* const* inputs, void* const* outputs, Workers& workers,
                            Observer* observer) {
  const Turn turn(&impl_->busy);
  VPU_RETURN_IF_ERROR(turn.status());
  std::vector<void*>& operands = impl_->operands;
  for (const Binding& b : impl_->bound_inputs) {
    operands[b.operand] = const_cast<void*>(inputs[b.position]);
  }
  for (const Binding& b : impl_->bound_outputs) operands[b.operand] = outputs[b.position];

  impl_->team->execute(workers, [&] {
    for (size_t i = 0; i < impl_->steps.size(); ++i) {
      const Step& step = impl_->steps[i];
      void* output = operands[step.output];
      if (observer != nullptr) observer->before(i);
      step.kernel->run(
          {operands.data() + step.first_input, output, *impl_->team, impl_->scratch.get()});
      if (observer != nullptr) observer->after(i, output);
    }
  });
  return {};
}

}  // namespace vpu
