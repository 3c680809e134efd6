// What prepare functions check of their operands. Each answers in words; none trusts a field.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "vpu/kernel.h"

#define VPU_EXPECT(condition, ...)                                      \
  do {                                                                  \
    if (!(condition)) return error(::vpu::Code::kCorrupt, __VA_ARGS__); \
  } while (false)

namespace vpu {

// Centered int8 values are at most this far from zero.
constexpr int64_t kMaxCentered = 255;
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

inline std::string to_string(const std::vector<int32_t>& shape) {
  std::string text = "[";
  for (int32_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// A copy, which counts among what the program may take: instructions may share a vector.
inline std::vector<int32_t> values(const PrepareContext& context,
                                   const flatbuffers::Vector<int32_t>* vector) {
  if (vector == nullptr) return {};
  context.memory.charge(sizeof(int32_t) * uint64_t{vector->size()});
  return std::vector<int32_t>(vector->begin(), vector->end());
}

inline Status expect_inputs(const PrepareContext& context, size_t least, size_t most) {
  const size_t inputs = context.inputs.size();
  VPU_EXPECT(inputs >= least && inputs <= most, "it has %zu inputs, not %zu to %zu", inputs, least,
             most);
  return {};
}

inline Status expect_type(const TensorInfo& tensor, const char* name, schema::DType dtype) {
  VPU_EXPECT(tensor.dtype == dtype, "%s is %s, not %s", name, schema::EnumNameDType(tensor.dtype),
             schema::EnumNameDType(dtype));
  return {};
}

inline Status expect_rank(const TensorInfo& tensor, const char* name, size_t rank) {
  VPU_EXPECT(tensor.shape.size() == rank, "%s has shape %s, which is not of rank %zu", name,
             to_string(tensor.shape).c_str(), rank);
  return {};
}

inline Status expect_shape(const TensorInfo& tensor, const char* name,
                           const std::vector<int32_t>& shape) {
  VPU_EXPECT(tensor.shape == shape, "%s has shape %s, not %s", name,
             to_string(tensor.shape).c_str(), to_string(shape).c_str());
  return {};
}

inline Status expect_constant(const TensorInfo& tensor, const char* name, schema::DType dtype,
                              const std::vector<int32_t>& shape) {
  VPU_RETURN_IF_ERROR(expect_type(tensor, name, dtype));
  VPU_RETURN_IF_ERROR(expect_shape(tensor, name, shape));
  VPU_EXPECT(tensor.constant != nullptr, "%s is not a constant", name);
  return {};
}

// All int8.
inline Status expect_int8(std::initializer_list<const TensorInfo*> tensors) {
  for (const TensorInfo* tensor : tensors) {
    VPU_RETURN_IF_ERROR(expect_type(*tensor, "an operand", schema::DType_Int8));
  }
  return {};
}

// So bounded, no product or sum of a kernel becomes infinite or NaN.
inline Status expect_multiplier(float value, const char* name) {
  VPU_EXPECT(std::isfinite(value) && std::fabs(value) <= 1e18f, "%s is %g", name,
             static_cast<double>(value));
  return {};
}

inline Status expect_axis(int32_t axis, const TensorInfo& tensor) {
  VPU_EXPECT(axis >= 0 && static_cast<size_t>(axis) < tensor.shape.size(),
             "its axis is %d of a shape %s", axis, to_string(tensor.shape).c_str());
  return {};
}

}  // namespace vpu
