#include "tools/array.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace vpu::tools {
namespace {

struct DtypeName {
  ScalarType type;
  const char* numpy;  // the name in a .npy header
  const char* words;
  size_t bytes;
};

constexpr DtypeName kDtypes[] = {
    {ScalarType::Float, "<f4", "float32", 4}, {ScalarType::Double, "<f8", "float64", 8},
    {ScalarType::Char, "|i1", "int8", 1},     {ScalarType::Byte, "|u1", "uint8", 1},
    {ScalarType::Short, "<i2", "int16", 2},   {ScalarType::Int, "<i4", "int32", 4},
    {ScalarType::Long, "<i8", "int64", 8},    {ScalarType::Bool, "|b1", "bool", 1},
};

const DtypeName& dtype_of(ScalarType type) {
  for (const DtypeName& dtype : kDtypes) {
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

constexpr char kNpyMagic[] = "\x93NUMPY";
constexpr size_t kNpyMagicSize = 6;
constexpr size_t kNpyAlignment = 64;

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

std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)),
                             std::istreambuf_iterator<char>());
  if (!file) throw std::runtime_error("cannot read '" + path + "'");
  return bytes;
}

void write_file(const std::string& path, const void* data, size_t size) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  file.close();
  if (!file) throw std::runtime_error("cannot write '" + path + "'");
}

Array read_npy(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path);
  const auto fail = [&path](const std::string& why) {
    return std::runtime_error("'" + path + "' is not a .npy file this program reads: " + why);
  };
  if (bytes.size() < 12 || std::memcmp(bytes.data(), kNpyMagic, kNpyMagicSize) != 0) {
    throw fail("it does not begin with NumPy's magic string");
  }
  // Version 1 has a 2-byte header length, later ones 4 bytes.
  const size_t length_bytes = bytes[kNpyMagicSize] == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t{bytes[8 + i]} << (8 * i);
  const size_t begin = 8 + length_bytes;
  if (length > bytes.size() - begin) throw fail("it is truncated");
  const std::string header(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                           bytes.begin() + static_cast<std::ptrdiff_t>(begin + length));

  std::smatch match;
  if (!std::regex_search(header, match, std::regex("'descr': *'([^']*)'"))) {
    throw fail("its header has no plain dtype");
  }
  const std::string name = match[1];
  Array array;
  bool known = false;
  for (const DtypeName& dtype : kDtypes) {
    if (name == dtype.numpy) array.type = dtype.type, known = true;
  }
  if (!known) throw fail("its dtype is '" + name + "'");
  if (header.find("'fortran_order': False") == std::string::npos) {
    throw fail("it is in Fortran order; save numpy.ascontiguousarray(array)");
  }
  if (!std::regex_search(header, match, std::regex("'shape': *\\(([0-9, ]*)\\)"))) {
    throw fail("its header has no shape");
  }
  const std::string shape = match[1];
  const std::regex number("[0-9]+");
  for (std::sregex_iterator it(shape.begin(), shape.end(), number), end; it != end; ++it) {
    const std::string digits = it->str();
    if (digits.size() > 9) throw fail("its shape is too large");
    array.sizes.push_back(std::stoi(digits));
  }
  array.bytes.assign(bytes.begin() + static_cast<std::ptrdiff_t>(begin + length), bytes.end());
  if (array.bytes.size() != count(array.sizes) * element_bytes(array.type)) {
    throw fail("it does not hold as many bytes as its shape and dtype say");
  }
  return array;
}

void write_npy(const std::string& path, const Array& array) {
  std::string header = std::string("{'descr': '") + dtype_of(array.type).numpy +
                       "', 'fortran_order': False, 'shape': (";
  for (int32_t size : array.sizes) header += std::to_string(size) + ", ";
  header += "), }";
  const size_t before = kNpyMagicSize + 2 + 2;  // magic, version, header length
  while ((before + header.size() + 1) % kNpyAlignment != 0) header += ' ';
  header += '\n';
  std::string file(kNpyMagic, kNpyMagicSize);
  file +=
      {'\1', '\0', static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  file += header;
  file.append(array.bytes.begin(), array.bytes.end());
  write_file(path, file.data(), file.size());
}

}  // namespace vpu::tools
