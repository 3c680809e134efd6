// A program whose every reference was checked: what the interpreter may rely on.
#pragma once

#include <cstdint>
#include <vector>

#include "interpreter/blob.h"
#include "interpreter/budget.h"
#include "vpu/interpreter.h"
#include "vpu/kernel.h"
#include "vpu/status.h"

namespace vpu {

// Where a tensor's bytes are. `offset` is a position in the list for inputs and outputs.
struct Place {
  schema::Storage storage;
  uint64_t offset;
  uint64_t bytes;
};

// Its pointers are into the blob.
struct Program {
  const schema::Program* schema = nullptr;
  Blob blob;
  std::vector<TensorInfo> tensors;  // without the data of constants
  std::vector<Place> places;        // of the tensors
  std::vector<ArgumentInfo> inputs;
  std::vector<ArgumentInfo> outputs;
  std::vector<const schema::Instruction*> instructions;
};

// Checks the FlatBuffer, every tensor's shape and place, every argument, every instruction's
// operands, and that whatever is read was written before (dataflow.h). In time n log n of the
// blob's size: what tables share counts each time, and soon is too much.
Status read_program(const Blob& blob, Budget* budget, Program* program);

// "instruction 3 (Conv2d, conv2d+relu)", for messages.
std::string describe(const Program& program, size_t instruction);

}  // namespace vpu
