// Arrays in logical, row-major order, as .npy files hold them, and their way to and from memory.
#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/span.h>

#include <cstdint>
#include <string>
#include <vector>

namespace vpu::tools {

using executorch::aten::ScalarType;
using Sizes = std::vector<int32_t>;
using DimOrder = executorch::runtime::Span<const uint8_t>;

struct Array {
  ScalarType type = ScalarType::Float;
  Sizes sizes;
  std::vector<uint8_t> bytes;
};

size_t element_bytes(ScalarType type);  // throws std::runtime_error if it is not supported here
std::string describe(ScalarType type, const Sizes& sizes);  // "float32 [1, 3, 224, 224]"
size_t count(const Sizes& sizes);

// The bytes with the dimensions in `dim_order`, outermost first; and back.
std::vector<uint8_t> to_memory(const Array& array, DimOrder dim_order);
Array from_memory(ScalarType type, const Sizes& sizes, DimOrder dim_order, const void* data);

}  // namespace vpu::tools
