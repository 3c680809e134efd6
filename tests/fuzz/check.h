// What must hold of any blob: it is refused in words, or it gives the same bits on every
// instruction set with any number of workers. Neither takes much more memory than allowed, or long.
#pragma once

#include <cstddef>
#include <cstdint>

#include "case.h"

namespace vpu::fuzz {

// Aborts, with what is wrong, if it does not hold. Sanitizers see to the rest.
void check(const uint8_t* data, size_t size);

// Whether the interpreter takes no more memory than check allows, and no more operations than that;
// nor the arguments more than such a program may pass. Also true of what is refused otherwise.
bool is_within(const Bytes& blob, uint64_t work);

// How many blobs were refused, were too large to run, ran.
void print_counts();

}  // namespace vpu::fuzz
