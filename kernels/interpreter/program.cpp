#include "interpreter/program.h"

#include <cinttypes>
#include <cstddef>
#include <limits>

#include "interpreter/dataflow.h"
#include "interpreter/memory.h"

namespace vpu {
namespace {

// Far above any model's activations; a damaged size beyond it is not worth asking the system for.
constexpr uint64_t kMaxArenaSize = uint64_t{1} << 34;

uint64_t size_of(schema::DType dtype) { return dtype == schema::DType_Int8 ? 1 : 4; }

template <class Vector>
uint32_t count(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

std::string text(const flatbuffers::String* string) {
  return string == nullptr ? std::string() : string->str();
}

Status read_shape(const schema::Tensor& tensor, uint32_t index, TensorInfo* info) {
  if (count(tensor.shape()) > kMaxRank) {
    return error(Code::kCorrupt, "tensor %" PRIu32 " has %" PRIu32 " dimensions, more than %zu",
                 index, count(tensor.shape()), kMaxRank);
  }
  int64_t elements = 1;
  for (uint32_t d = 0; d < count(tensor.shape()); ++d) {
    const int32_t size = tensor.shape()->Get(d);
    if (size < 1 || elements * size > std::numeric_limits<int32_t>::max()) {
      return error(Code::kCorrupt,
                   "tensor %" PRIu32 " has a shape with size %" PRId32 " in dimension %" PRIu32
                   ": sizes are at least 1 and their product below 2^31",
                   index, size, d);
    }
    elements *= size;
    info->shape.push_back(size);
  }
  return {};
}

Status read_tensor(const Blob& blob, const schema::Tensor& tensor, uint32_t index,
                   uint64_t arena_size, TensorInfo* info, Place* place) {
  if (tensor.dtype() < schema::DType_MIN || tensor.dtype() > schema::DType_MAX ||
      tensor.storage() < schema::Storage_MIN || tensor.storage() > schema::Storage_MAX) {
    return error(Code::kCorrupt, "tensor %" PRIu32 " has an unknown dtype %d or storage %d", index,
                 tensor.dtype(), tensor.storage());
  }
  info->dtype = tensor.dtype();
  info->zero_point = tensor.zero_point();
  VPU_RETURN_IF_ERROR(read_shape(tensor, index, info));
  const uint64_t element = size_of(tensor.dtype());
  const uint64_t bytes = info->bytes();
  *place = {tensor.storage(), tensor.offset(), bytes};

  const bool constant = tensor.storage() == schema::Storage_Constant;
  if (!constant && tensor.storage() != schema::Storage_Arena) return {};
  const uint64_t section = constant ? blob.constants_size : arena_size;
  if (bytes > section || tensor.offset() > section - bytes || tensor.offset() % element != 0) {
    return error(Code::kCorrupt,
                 "tensor %" PRIu32 " lies at offset %" PRIu64 " with %" PRIu64
                 " bytes, which is misaligned or outside the %" PRIu64 " bytes of %s",
                 index, tensor.offset(), bytes, section, constant ? "constants" : "the arena");
  }
  return {};
}

// Physical dimension i must be logical dimension dim_order[i], each exactly once.
bool is_layout_of(const schema::Argument& argument, const std::vector<int32_t>& shape) {
  const size_t rank = shape.size();
  if (count(argument.sizes()) != rank || count(argument.dim_order()) != rank) return false;
  uint32_t seen = 0;
  for (size_t i = 0; i < rank; ++i) {
    const uint8_t d = argument.dim_order()->Get(static_cast<uint32_t>(i));
    if (d >= rank || (seen >> d & 1) != 0 || argument.sizes()->Get(d) != shape[i]) return false;
    seen |= uint32_t{1} << d;
  }
  return true;
}

using Arguments = flatbuffers::Vector<flatbuffers::Offset<schema::Argument>>;

Status read_arguments(const Program& program, const Arguments* arguments, schema::Storage storage,
                      std::vector<ArgumentInfo>* infos) {
  const char* kind = storage == schema::Storage_Input ? "input" : "output";
  for (uint32_t i = 0; i < count(arguments); ++i) {
    const schema::Argument& argument = *arguments->Get(i);
    const uint32_t index = argument.tensor();
    if (index >= program.tensors.size()) {
      return error(Code::kCorrupt, "%s %" PRIu32 " is tensor %" PRIu32 ", which does not exist",
                   kind, i, index);
    }
    const TensorInfo& tensor = program.tensors[index];
    const Place& place = program.places[index];
    if (place.storage != storage || place.offset != i) {
      return error(Code::kCorrupt,
                   "%s %" PRIu32 " is tensor %" PRIu32 ", which is not stored as that %s", kind, i,
                   index, kind);
    }
    if (!is_layout_of(argument, tensor.shape)) {
      return error(Code::kCorrupt,
                   "%s %" PRIu32
                   " has sizes and a dim order that do not give the shape of its "
                   "tensor %" PRIu32,
                   kind, i, index);
    }
    ArgumentInfo info;
    info.dtype = tensor.dtype;
    for (uint32_t d = 0; d < count(argument.sizes()); ++d) {
      info.sizes.push_back(argument.sizes()->Get(d));
      info.dim_order.push_back(argument.dim_order()->Get(d));
    }
    const schema::Tensor& source = *program.schema->tensors()->Get(index);
    info.scale = source.scale();
    info.zero_point = tensor.zero_point;
    info.name = text(source.name());
    info.bytes = static_cast<size_t>(place.bytes);
    infos->push_back(std::move(info));
  }
  return {};
}

// A tensor that shares its bytes with an argument must be the same bytes, whatever its shape.
Status check_aliases(const Program& program) {
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Place& place = program.places[i];
    const bool input = place.storage == schema::Storage_Input;
    if (!input && place.storage != schema::Storage_Output) continue;
    const std::vector<ArgumentInfo>& arguments = input ? program.inputs : program.outputs;
    if (place.offset >= arguments.size() || arguments[place.offset].bytes != place.bytes ||
        arguments[place.offset].dtype != program.tensors[i].dtype) {
      return error(Code::kCorrupt, "tensor %zu is not what the program declares as %s %" PRIu64, i,
                   input ? "input" : "output", place.offset);
    }
  }
  return {};
}

// A FlatBuffer's tables may share vectors and strings. Some is a writer's thrift; without a bound,
// reading takes the square of its size.
Status check_sharing(const Program& program) {
  constexpr uint64_t kMost = 4;  // how often a byte may be read, on average
  const schema::Program& schema = *program.schema;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count(schema.tensors()); ++i) {
    const schema::Tensor& tensor = *schema.tensors()->Get(i);
    bytes += uint64_t{4} * count(tensor.shape()) + count(tensor.name());
  }
  for (const auto* arguments : {schema.inputs(), schema.outputs()}) {
    for (uint32_t i = 0; i < count(arguments); ++i) {
      const schema::Argument& argument = *arguments->Get(i);
      bytes += uint64_t{4} * count(argument.sizes()) + count(argument.dim_order());
    }
  }
  for (uint32_t i = 0; i < count(schema.instructions()); ++i) {
    const schema::Instruction& instruction = *schema.instructions()->Get(i);
    bytes += uint64_t{4} * count(instruction.inputs()) + count(instruction.name());
  }
  const uint64_t limit = kMost * program.blob.program_size;
  if (bytes <= limit) return {};
  return error(Code::kCorrupt,
               "the VPU program's tables share vectors or names: read one by one they are %" PRIu64
               " bytes, more than %" PRIu64 ", which is %" PRIu64 " times the FlatBuffer's size",
               bytes, limit, kMost);
}

// What the interpreter keeps of an entry of the FlatBuffer's lists, in bytes, at least.
constexpr uint64_t kTensorBytes = 256;
constexpr uint64_t kArgumentBytes = 256;
constexpr uint64_t kInstructionBytes = 1024;

Status check_operands(const Program& program, size_t index) {
  const schema::Instruction& instruction = *program.instructions[index];
  if (instruction.op_type() == schema::Op_NONE || instruction.op_type() > schema::Op_MAX ||
      instruction.op() == nullptr) {
    return error(Code::kCorrupt, "instruction %zu has no operation this library knows", index);
  }
  for (uint32_t k = 0; k <= count(instruction.inputs()); ++k) {
    const uint32_t tensor =
        k < count(instruction.inputs()) ? instruction.inputs()->Get(k) : instruction.output();
    if (tensor >= program.tensors.size()) {
      return error(Code::kCorrupt, "%s names tensor %" PRIu32 ", which does not exist",
                   describe(program, index).c_str(), tensor);
    }
  }
  return {};
}

}  // namespace

int64_t TensorInfo::elements() const {
  int64_t product = 1;
  for (int32_t size : shape) product *= size;
  return product;
}

size_t TensorInfo::bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }

std::string describe(const Program& program, size_t instruction) {
  const schema::Instruction& i = *program.instructions[instruction];
  std::string words =
      "instruction " + std::to_string(instruction) + " (" + schema::EnumNameOp(i.op_type());
  if (count(i.name()) != 0) words += ", " + text(i.name());
  return words + ")";
}

Status read_program(const Blob& blob, Budget* budget, Program* program) {
  flatbuffers::Verifier::Options options;
  options.max_depth = 16;
  options.max_tables = std::numeric_limits<flatbuffers::uoffset_t>::max();
  flatbuffers::Verifier verifier(blob.program, blob.program_size, options);
  if (!schema::VerifyProgramBuffer(verifier)) {
    return error(Code::kCorrupt, "the VPU program is damaged: it is not a valid FlatBuffer");
  }
  program->schema = schema::GetProgram(blob.program);
  program->blob = blob;
  const uint64_t arena_size = program->schema->arena_size();
  if (arena_size > kMaxArenaSize) {
    return error(Code::kCorrupt, "the VPU program asks for an arena of %" PRIu64 " bytes",
                 arena_size);
  }
  VPU_RETURN_IF_ERROR(check_sharing(*program));
  budget->spend(allocated_bytes(arena_size));
  budget->spend(kTensorBytes * count(program->schema->tensors()));
  budget->spend(kArgumentBytes * count(program->schema->inputs()));
  budget->spend(kArgumentBytes * count(program->schema->outputs()));
  budget->spend(kInstructionBytes * count(program->schema->instructions()));
  for (uint32_t i = 0; i < count(program->schema->tensors()); ++i) {
    TensorInfo info;
    Place place;
    VPU_RETURN_IF_ERROR(
        read_tensor(blob, *program->schema->tensors()->Get(i), i, arena_size, &info, &place));
    program->tensors.push_back(std::move(info));
    program->places.push_back(place);
  }
  VPU_RETURN_IF_ERROR(
      read_arguments(*program, program->schema->inputs(), schema::Storage_Input, &program->inputs));
  VPU_RETURN_IF_ERROR(read_arguments(*program, program->schema->outputs(), schema::Storage_Output,
                                     &program->outputs));
  VPU_RETURN_IF_ERROR(check_aliases(*program));
  for (uint32_t i = 0; i < count(program->schema->instructions()); ++i) {
    program->instructions.push_back(program->schema->instructions()->Get(i));
    VPU_RETURN_IF_ERROR(check_operands(*program, i));
  }
  return check_dataflow(*program);
}

}  // namespace vpu
