// A method's inputs and outputs.
#pragma once

#include <executorch/extension/tensor/tensor_ptr.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/method_meta.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tools/array.h"

namespace vpu::tools {

// Throws std::runtime_error if what the method declares does not fit this machine's memory, which
// would be filled to its end otherwise.
void check_memory(const executorch::runtime::MethodMeta& method);

// The inputs of a method, from files or, if there are none, random. Throws std::runtime_error if
// the files are not what the method takes, FileError if they cannot be read.
std::vector<executorch::extension::TensorPtr> make_inputs(
    const executorch::runtime::MethodMeta& method, const std::vector<std::string>& files,
    uint64_t seed);

// "output 0: float32 [1, 10]  min -1.5  max 4.25  mean 0.5", and the largest elements of a vector.
void print_summary(std::FILE* file, size_t index, const Array& output);

// A tensor as an array; throws std::runtime_error if its dtype is none that is supported here.
Array to_array(size_t index, const executorch::runtime::EValue& value);

}  // namespace vpu::tools
