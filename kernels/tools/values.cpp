#include "tools/values.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>

#include "tools/npy.h"

namespace vpu::tools {
namespace {

using executorch::extension::TensorPtr;
using executorch::runtime::MethodMeta;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

constexpr size_t kTop = 5;

// Of a printed value. Whole numbers are not rounded.
constexpr int kDigits = 6, kAllDigits = 17;

bool exact(ScalarType type) { return type != ScalarType::Float && type != ScalarType::Double; }

bool is_npy(const std::string& path) {
  return path.size() >= 4 && path.compare(path.size() - 4, 4, ".npy") == 0;
}

TensorPtr make_tensor(const Sizes& sizes, DimOrder dim_order, ScalarType type,
                      std::vector<uint8_t> memory) {
  auto owner = std::make_shared<std::vector<uint8_t>>(std::move(memory));
  return executorch::extension::make_tensor_ptr(
      sizes, owner->data(), {dim_order.begin(), dim_order.end()}, {}, type,
      executorch::aten::Device(executorch::aten::DeviceType::CPU),
      executorch::aten::TensorShapeDynamism::STATIC, [owner](void*) {});
}

// Each dimension may be smaller than declared: a declared size is the upper bound of a dynamic one.
bool accepts(const Sizes& declared, const Sizes& sizes) {
  return declared.size() == sizes.size() &&
         std::equal(sizes.begin(), sizes.end(), declared.begin(), std::less_equal<int32_t>());
}

TensorPtr read_input(const TensorInfo& info, const std::string& path, const std::string& takes) {
  const Sizes declared(info.sizes().begin(), info.sizes().end());
  if (is_npy(path)) {
    NpyReader file(path);
    if (file.type() != info.scalar_type() || !accepts(declared, file.sizes())) {
      throw std::runtime_error(takes + ", but '" + path + "' holds " +
                               describe(file.type(), file.sizes()));
    }
    const Array array = std::move(file).read();
    return make_tensor(array.sizes, info.dim_order(), array.type,
                       to_memory(array, info.dim_order()));
  }
  std::string found;
  auto bytes = InputFile(path).read_rest(info.nbytes(), &found);
  if (!bytes) {
    throw std::runtime_error(takes + " of " + std::to_string(info.nbytes()) + " bytes, but '" +
                             path + "' has " + found);
  }
  return make_tensor(declared, info.dim_order(), info.scalar_type(), std::move(*bytes));
}

template <class T, class Distribution>
void fill(std::vector<uint8_t>* bytes, Distribution distribution, std::mt19937_64* generator) {
  for (size_t i = 0; i < bytes->size(); i += sizeof(T)) {
    const T value = static_cast<T>(distribution(*generator));
    std::memcpy(bytes->data() + i, &value, sizeof(T));
  }
}

// Floats are normal, int8 and uint8 use their whole range; other integers are 0 or 1, which are
// valid indices of almost anything.
std::vector<uint8_t> random_bytes(ScalarType type, size_t size, std::mt19937_64* generator) {
  std::vector<uint8_t> bytes(size);
  const std::uniform_int_distribution<int> any_byte(0, 255);
  const std::uniform_int_distribution<int> bit(0, 1);
  switch (type) {
    case ScalarType::Float:
      fill<float>(&bytes, std::normal_distribution<float>(), generator);
      break;
    case ScalarType::Double:
      fill<double>(&bytes, std::normal_distribution<double>(), generator);
      break;
    case ScalarType::Char:
    case ScalarType::Byte:
      fill<uint8_t>(&bytes, any_byte, generator);
      break;
    case ScalarType::Bool:
      fill<uint8_t>(&bytes, bit, generator);
      break;
    case ScalarType::Short:
      fill<int16_t>(&bytes, bit, generator);
      break;
    case ScalarType::Int:
      fill<int32_t>(&bytes, bit, generator);
      break;
    default:
      fill<int64_t>(&bytes, bit, generator);
      break;
  }
  return bytes;
}

template <class T>
std::vector<double> values_of(const Array& array) {
  std::vector<double> values(array.bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, &array.bytes[i * sizeof(T)], sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

std::vector<double> values_of(const Array& array) {
  switch (array.type) {
    case ScalarType::Float:
      return values_of<float>(array);
    case ScalarType::Double:
      return values_of<double>(array);
    case ScalarType::Char:
      return values_of<int8_t>(array);
    case ScalarType::Short:
      return values_of<int16_t>(array);
    case ScalarType::Int:
      return values_of<int32_t>(array);
    case ScalarType::Long:
      return values_of<int64_t>(array);
    default:
      return values_of<uint8_t>(array);
  }
}

}  // namespace

void check_memory(const MethodMeta& method) {
  uint64_t bytes = 0;  // in each step less than 2^64: a size is an int64
  const uint64_t most = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
  const auto add = [&](uint64_t more) {
    bytes += more;
    if (bytes <= most) return;
    throw std::runtime_error("method '" + std::string(method.name()) + "' needs " +
                             std::to_string(bytes) + " bytes of memory or more, this machine has " +
                             std::to_string(most));
  };
  for (size_t i = 0; i < method.num_memory_planned_buffers(); ++i) {
    const auto size = method.memory_planned_buffer_size(i);
    if (size.ok() && *size > 0) add(static_cast<uint64_t>(*size));
  }
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    const auto info = method.input_tensor_meta(i);
    if (info.ok()) add(info->nbytes());
  }
}

std::vector<TensorPtr> make_inputs(const MethodMeta& method, const std::vector<std::string>& files,
                                   uint64_t seed) {
  if (!files.empty() && files.size() != method.num_inputs()) {
    throw std::runtime_error("method '" + std::string(method.name()) + "' takes " +
                             std::to_string(method.num_inputs()) + " inputs, got " +
                             std::to_string(files.size()) + " times --input");
  }
  std::mt19937_64 generator(seed);
  std::vector<TensorPtr> inputs;
  for (size_t i = 0; i < method.num_inputs(); ++i) {
    const auto tag = method.input_tag(i);
    if (!tag.ok() || *tag != Tag::Tensor) {
      throw std::runtime_error("input " + std::to_string(i) +
                               " is not a tensor; vpu_runner only passes tensors");
    }
    const auto info = method.input_tensor_meta(i);
    if (!info.ok()) throw std::runtime_error("input " + std::to_string(i) + " is not described");
    const Sizes sizes(info->sizes().begin(), info->sizes().end());
    std::string takes = "input " + std::to_string(i) + " is ";
    try {
      takes += describe(info->scalar_type(), sizes);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("input " + std::to_string(i) + ": " + error.what());
    }
    if (!files.empty()) {
      inputs.push_back(read_input(*info, files[i], takes));
      continue;
    }
    inputs.push_back(make_tensor(sizes, info->dim_order(), info->scalar_type(),
                                 random_bytes(info->scalar_type(), info->nbytes(), &generator)));
  }
  return inputs;
}

Array to_array(size_t index, const executorch::runtime::EValue& value) {
  const executorch::aten::Tensor& tensor = value.toTensor();
  const Sizes sizes(tensor.sizes().begin(), tensor.sizes().end());
  try {
    return from_memory(tensor.scalar_type(), sizes,
                       DimOrder(tensor.dim_order().data(), tensor.dim_order().size()),
                       tensor.const_data_ptr());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("output " + std::to_string(index) + ": " + error.what());
  }
}

void print_summary(std::FILE* file, size_t index, const Array& output) {
  std::fprintf(file, "output %zu: %s", index, describe(output.type, output.sizes).c_str());
  const std::vector<double> values = values_of(output);
  if (values.empty()) {
    std::fprintf(file, "\n");
    return;
  }
  // NaN has no place in an order.
  const auto less = [](double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); };
  const auto more = [](double a, double b) { return !std::isnan(a) && (std::isnan(b) || a > b); };
  const double least = *std::min_element(values.begin(), values.end(), less);
  const double most = *std::min_element(values.begin(), values.end(), more);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const int digits = exact(output.type) ? kAllDigits : kDigits;
  std::fprintf(file, "  min %.*g  max %.*g  mean %g\n", digits, least, digits, most,
               sum / static_cast<double>(values.size()));

  const bool vector = !output.sizes.empty() && values.size() > 1 &&
                      values.size() == static_cast<size_t>(output.sizes.back());
  if (!vector) return;
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t top = std::min(kTop, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                    [&](size_t a, size_t b) {
                      if (more(values[a], values[b])) return true;
                      return !more(values[b], values[a]) && a < b;
                    });
  std::fprintf(file, "  top %zu:", top);
  for (size_t i = 0; i < top; ++i) {
    std::fprintf(file, "%s [%zu] %.*g", i == 0 ? "" : ",", order[i], digits, values[order[i]]);
  }
  std::fprintf(file, "\n");
}

}  // namespace vpu::tools
