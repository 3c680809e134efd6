// A blob taken apart so that it can be changed: the program as the objects of the schema, and the
// bytes of each constant by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vpu_generated.h"

namespace vpu::fuzz {

using Bytes = std::vector<uint8_t>;
using Shape = std::vector<int32_t>;

constexpr int32_t kNoBase = -1;

struct Case {
  schema::ProgramT program;
  std::vector<Bytes> constants;  // of each tensor; empty if it is none
  std::vector<int32_t> bases;    // of each tensor, the one whose value it is in another shape

  schema::TensorT& tensor(size_t index) { return *program.tensors[index]; }
  const schema::TensorT& tensor(size_t index) const { return *program.tensors[index]; }
  // The one that is written, or passed.
  size_t root(size_t index) const {
    return bases[index] == kNoBase ? index : static_cast<size_t>(bases[index]);
  }
  size_t add(const schema::TensorT& tensor, Bytes constant = {}, int32_t base = kNoBase);
};

size_t element_bytes(schema::DType dtype);
// Of any shape, also of one that no program may have.
double elements_of(const Shape& shape);

// That fill_constants will give it.
double constant_bytes(const Case& c);

// Whether the blob holds a valid FlatBuffer with tensors and instructions. Its numbers may be
// anything.
bool read_case(const uint8_t* data, size_t size, Case* out);

// Gives every constant its place, equal ones the same. Answers the blob's section of constants.
Bytes place_constants(Case* c);

Bytes pack(const schema::ProgramT& program, const Bytes& constants);
// The blob around any bytes in place of a FlatBuffer.
Bytes pack(const Bytes& flatbuffer, const Bytes& constants);
// Sets the checksum to what it should be.
void seal(Bytes* blob);

}  // namespace vpu::fuzz
