// Random changes to a program.
#pragma once

#include "case.h"
#include "random.h"

namespace vpu::fuzz {

// A change that leaves something to settle: a size, a field, an operand, constants, instructions.
void change(Case* c, Random* random);

// Halves the largest size there is, wherever it stands.
void shrink(Case* c);

// Puts the instructions of another program behind its own; often they read what these write.
void append(Case* c, const Case& other, Random* random);

// A change that nothing will be made to fit: any number anywhere in the program.
void damage(schema::ProgramT* program, Random* random);

}  // namespace vpu::fuzz
