// What must hold of any blob: it is refused in words, or it gives the same bits on every
// instruction set with any number of workers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vpu::fuzz {

// Aborts, with what is wrong, if it does not hold. Sanitizers see to the rest.
void check(const uint8_t* data, size_t size);

// How many blobs were refused, were too large to run, ran.
void print_counts();

}  // namespace vpu::fuzz
