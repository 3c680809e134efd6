#include "tools/array.h"

#include <cstring>
#include <stdexcept>

namespace vpu::tools {
namespace {

struct Dtype {
  ScalarType type;
  const char* words;
  size_t bytes;
};

constexpr Dtype kDtypes[] = {
    {ScalarType::Float, "float32", 4}, {ScalarType::Double, "float64", 8},
    {ScalarType::Char, "int8", 1},     {ScalarType::Byte, "uint8", 1},
    {ScalarType::Short, "int16", 2},   {ScalarType::Int, "int32", 4},
    {ScalarType::Long, "int64", 8},    {ScalarType::Bool, "bool", 1},
};

const Dtype& dtype_of(ScalarType type) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.type == type) return dtype;
  }
  throw std::runtime_error("tensors of ExecuTorch's scalar type " +
                           std::to_string(static_cast<int>(type)) + " are not supported here");
}

// Calls visit(logical, physical) with the element offsets of every element.
template <class Visit>
void for_each_element(const Sizes& sizes, DimOrder dim_order, Visit&& visit) {
  const size_t rank = sizes.size();
  std::vector<size_t> stride(rank);  // of a logical dimension in memory
  size_t next = 1;
  for (size_t i = rank; i-- > 0;) {
    stride[dim_order[i]] = next;
    next *= static_cast<size_t>(sizes[dim_order[i]]);
  }
  for (size_t logical = 0; logical < next; ++logical) {
    size_t physical = 0, rest = logical;
    for (size_t d = rank; d-- > 0;) {
      const size_t size = static_cast<size_t>(sizes[d]);
      physical += rest % size * stride[d];
      rest /= size;
    }
    visit(logical, physical);
  }
}

}  // namespace

size_t element_bytes(ScalarType type) { return dtype_of(type).bytes; }

size_t count(const Sizes& sizes) {
  size_t product = 1;
  for (int32_t size : sizes) product *= static_cast<size_t>(size);
  return product;
}

std::string describe(ScalarType type, const Sizes& sizes) {
  std::string words = std::string(dtype_of(type).words) + " [";
  for (size_t d = 0; d < sizes.size(); ++d) {
    words += (d == 0 ? "" : ", ") + std::to_string(sizes[d]);
  }
  return words + "]";
}

std::vector<uint8_t> to_memory(const Array& array, DimOrder dim_order) {
  const size_t width = element_bytes(array.type);
  std::vector<uint8_t> memory(array.bytes.size());
  for_each_element(array.sizes, dim_order, [&](size_t logical, size_t physical) {
    std::memcpy(&memory[physical * width], &array.bytes[logical * width], width);
  });
  return memory;
}

Array from_memory(ScalarType type, const Sizes& sizes, DimOrder dim_order, const void* data) {
  const size_t width = element_bytes(type);
  Array array{type, sizes, std::vector<uint8_t>(count(sizes) * width)};
  const auto* memory = static_cast<const uint8_t*>(data);
  for_each_element(sizes, dim_order, [&](size_t logical, size_t physical) {
    std::memcpy(&array.bytes[logical * width], &memory[physical * width], width);
  });
  return array;
}

}  // namespace vpu::tools
