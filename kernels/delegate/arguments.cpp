#include "delegate/arguments.h"

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include <algorithm>

#include "delegate/scalar_type.h"

namespace vpu {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;

template <class Sequence>
std::string list(const Sequence& values) {
  std::string words = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    words += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return words + "]";
}

template <class A, class B>
bool same(const A& a, const B& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Dimensions of size 1 can stand anywhere in the order without moving an element.
bool same_layout(const Tensor& tensor, const ArgumentInfo& expected) {
  const size_t rank = expected.sizes.size();
  if (tensor.dim_order().size() != rank) return false;
  size_t a = 0, b = 0;
  while (true) {
    while (a < rank && expected.sizes[tensor.dim_order()[a]] == 1) ++a;
    while (b < rank && expected.sizes[expected.dim_order[b]] == 1) ++b;
    if (a == rank || b == rank) return a == b;
    if (tensor.dim_order()[a++] != expected.dim_order[b++]) return false;
  }
}

}  // namespace

Status check_argument(const executorch::runtime::EValue& value, const ArgumentInfo& expected,
                      const char* kind, size_t index) {
  if (!value.isTensor()) {
    return error(Code::kBadArgument, "%s %zu must be a tensor", kind, index);
  }
  const Tensor& tensor = value.toTensor();
  const ScalarType type = scalar_type(expected.dtype);
  if (tensor.scalar_type() != type) {
    return error(Code::kBadArgument, "%s %zu must have dtype %s, got %s", kind, index,
                 executorch::runtime::toString(type),
                 executorch::runtime::toString(tensor.scalar_type()));
  }
  if (!same(tensor.sizes(), expected.sizes)) {
    return error(Code::kBadArgument, "%s %zu must have sizes %s, got %s", kind, index,
                 list(expected.sizes).c_str(), list(tensor.sizes()).c_str());
  }
  if (!same_layout(tensor, expected)) {
    return error(Code::kBadArgument,
                 "%s %zu must have dim order %s (its memory format at export), got %s", kind, index,
                 list(expected.dim_order).c_str(), list(tensor.dim_order()).c_str());
  }
  if (tensor.const_data_ptr() == nullptr) {
    return error(Code::kBadArgument, "%s %zu has no data", kind, index);
  }
  return {};
}

}  // namespace vpu
