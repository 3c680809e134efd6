#include "tools/npy.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace vpu::tools {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;
constexpr size_t kAlignment = 64;
constexpr size_t kLongestHeader = 10000;  // what numpy.load itself reads
constexpr size_t kLongestQuotation = 40;
constexpr size_t kMostDimensions = 64;  // of NumPy's arrays

struct NpyDtype {
  ScalarType type;
  const char* name;  // in a header
};

constexpr NpyDtype kDtypes[] = {
    {ScalarType::Float, "<f4"}, {ScalarType::Double, "<f8"}, {ScalarType::Char, "|i1"},
    {ScalarType::Byte, "|u1"},  {ScalarType::Short, "<i2"},  {ScalarType::Int, "<i4"},
    {ScalarType::Long, "<i8"},  {ScalarType::Bool, "|b1"},
};

std::runtime_error refusal(const std::string& path, const std::string& why) {
  return std::runtime_error("'" + path + "' is not a .npy file this program reads: " + why);
}

// The beginning of what a file says, which may be any bytes.
std::string quoted(std::string_view text) {
  const bool whole = text.size() <= kLongestQuotation;
  std::string begin(text.substr(0, kLongestQuotation));
  for (char& byte : begin) {
    if (byte < ' ' || byte > '~') byte = '?';
  }
  return "'" + begin + (whole ? "'" : "...'");
}

// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, a literal of Python with these three
// keys in any order.
class Header {
 public:
  // Throws std::runtime_error if the text is anything else.
  Header(const std::string& path, std::string_view text) : path_(path), rest_(text) {
    expect('{');
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !descr_) {
        descr_ = true;
        dtype();
      } else if (key == "fortran_order" && !order_) {
        order_ = true;
        fortran_order();
      } else if (key == "shape" && !shape_) {
        shape_ = true;
        shape();
      } else {
        throw fail("its header has an unknown or second key " + quoted(key));
      }
      if (take('}')) break;
      expect(',');
    }
    if (!descr_) throw fail("its header has no 'descr', the dtype");
    if (!order_) throw fail("its header has no 'fortran_order'");
    if (!shape_) throw fail("its header has no 'shape'");
    skip_spaces();
    if (!rest_.empty()) throw fail("its header goes on with " + quoted(rest_));
  }

  ScalarType type = ScalarType::Float;
  Sizes sizes;

 private:
  std::runtime_error fail(const std::string& why) const { return refusal(path_, why); }

  void skip_spaces() {
    const size_t end = rest_.find_first_not_of(" \t\n\r");
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end);
  }

  bool at(char character) {
    skip_spaces();
    return !rest_.empty() && rest_.front() == character;
  }

  bool take(char character) {
    if (!at(character)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char character) {
    if (take(character)) return;
    throw fail(std::string("its header has ") + (rest_.empty() ? "an end" : quoted(rest_)) +
               " where '" + character + "' is expected");
  }

  bool take_word(std::string_view word) {
    skip_spaces();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string_view string() {
    const char quote = at('"') ? '"' : '\'';
    expect(quote);
    const size_t end = rest_.find(quote);
    if (end == std::string_view::npos) throw fail("a string of its header has no end");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  void dtype() {
    if (at('[') || at('(')) throw fail("its dtype has fields or a shape of its own" + expected());
    const std::string_view name = string();
    for (const NpyDtype& known : kDtypes) {
      if (name == known.name) {
        type = known.type;
        return;
      }
    }
    const std::string words = "its dtype is " + quoted(name);
    if (name.substr(0, 1) == ">") throw fail(words + ", big-endian" + expected());
    if (name.find('O') != std::string_view::npos) throw fail(words + ", objects" + expected());
    throw fail(words + expected());
  }

  static std::string expected() {
    std::string words = ", expected one of";
    for (const NpyDtype& dtype : kDtypes) words += std::string(" ") + dtype.name;
    return words;
  }

  void fortran_order() {
    if (take_word("False")) return;
    if (take_word("True"))
      throw fail("it is in Fortran order; save numpy.ascontiguousarray(array)");
    throw fail("its 'fortran_order' is neither True nor False");
  }

  void shape() {
    skip_spaces();
    const auto no_tuple = [this, begin = rest_] {
      return fail("its shape is not a tuple of whole numbers: " + quoted(begin));
    };
    if (!take('(')) throw no_tuple();
    bool comma = true;
    while (!take(')')) {
      if (!comma) throw no_tuple();
      skip_spaces();
      size_t digits = rest_.find_first_not_of("0123456789");
      if (digits == std::string_view::npos) digits = rest_.size();
      if (digits == 0) throw no_tuple();
      int64_t size = 0;
      for (char digit : rest_.substr(0, digits)) {
        size = size * 10 + (digit - '0');
        if (size > std::numeric_limits<int32_t>::max()) {
          throw fail("its shape is too large: a size is " + quoted(rest_.substr(0, digits)) +
                     ", at most 2147483647 is expected");
        }
      }
      sizes.push_back(static_cast<int32_t>(size));
      if (sizes.size() > kMostDimensions) throw fail("its shape has more than 64 dimensions");
      rest_.remove_prefix(digits);
      comma = take(',');
    }
    if (sizes.size() == 1 && !comma) throw no_tuple();  // (3) is a number
  }

  const std::string& path_;
  std::string_view rest_;
  bool descr_ = false, order_ = false, shape_ = false;
};

std::string read_header(const std::string& path, InputFile* file) {
  const std::vector<uint8_t> begin = file->read(kMagicSize + 2);
  if (begin.size() < kMagicSize + 2 || std::memcmp(begin.data(), kMagic, kMagicSize) != 0) {
    throw refusal(path, "it does not begin with NumPy's magic string");
  }
  const int major = begin[kMagicSize], minor = begin[kMagicSize + 1];
  if (major < 1 || major > 3 || minor != 0) {
    throw refusal(path, "it has version " + std::to_string(major) + "." + std::to_string(minor) +
                            ", expected 1.0, 2.0 or 3.0");
  }
  size_t length = 0;
  const std::vector<uint8_t> bytes = file->read(major == 1 ? 2 : 4);  // little-endian
  if (bytes.size() < (major == 1 ? 2u : 4u)) throw refusal(path, "it ends in its header");
  for (size_t i = 0; i < bytes.size(); ++i) length |= size_t{bytes[i]} << (8 * i);
  if (length > kLongestHeader) {
    throw refusal(path, "its header has " + std::to_string(length) + " bytes, expected at most " +
                            std::to_string(kLongestHeader));
  }
  const std::vector<uint8_t> header = file->read(length);
  if (header.size() < length) throw refusal(path, "it ends in its header");
  return {header.begin(), header.end()};
}

// Throws if that is more than memory could have an address for.
size_t data_bytes(const std::string& path, ScalarType type, const Sizes& sizes) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  constexpr auto kMost = static_cast<size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  size_t bytes = element_bytes(type);
  for (int32_t size : sizes) {
    if (bytes > kMost / static_cast<size_t>(size)) throw refusal(path, "its shape is too large");
    bytes *= static_cast<size_t>(size);
  }
  return bytes;
}

std::runtime_error wrong_size(const std::string& path, size_t expected, const std::string& found) {
  return refusal(path, "it does not hold as many bytes as its shape and dtype say: expected " +
                           std::to_string(expected) + " after the header, found " + found);
}

}  // namespace

NpyReader::NpyReader(const std::string& path) : path_(path), file_(path) {
  const std::string text = read_header(path_, &file_);
  Header header(path_, text);
  array_.type = header.type;
  array_.sizes = std::move(header.sizes);
  bytes_ = data_bytes(path_, array_.type, array_.sizes);
  if (const auto left = file_.left(); left && *left != bytes_) {
    throw wrong_size(path_, bytes_, std::to_string(*left));
  }
}

Array NpyReader::read() && {
  std::string found;
  auto data = file_.read_rest(bytes_, &found);
  if (!data) throw wrong_size(path_, bytes_, found);
  array_.bytes = std::move(*data);
  return std::move(array_);
}

void write_npy(const std::string& path, const Array& array) {
  std::string header = "{'descr': '";
  for (const NpyDtype& dtype : kDtypes) {
    if (dtype.type == array.type) header += dtype.name;
  }
  header += "', 'fortran_order': False, 'shape': (";
  for (int32_t size : array.sizes) header += std::to_string(size) + ", ";
  header += "), }";
  const size_t before = kMagicSize + 2 + 2;  // magic, version, header length
  while ((before + header.size() + 1) % kAlignment != 0) header += ' ';
  header += '\n';
  std::string begin(kMagic, kMagicSize);
  begin +=
      {'\1', '\0', static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  begin += header;
  OutputFile file(path);
  file.write(begin.data(), begin.size());
  file.write(array.bytes.data(), array.bytes.size());
  file.commit();
}

}  // namespace vpu::tools
