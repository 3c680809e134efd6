// NumPy's .npy files, versions 1.0 to 3.0: plain dtypes, in C order.
#pragma once

#include <string>

#include "tools/array.h"
#include "tools/files.h"

namespace vpu::tools {

// Reads the header first, so that the data is read only if it is what is wanted. All throw
// FileError, or std::runtime_error in words if the file is not such a .npy file.
class NpyReader {
 public:
  explicit NpyReader(const std::string& path);

  ScalarType type() const { return array_.type; }
  const Sizes& sizes() const { return array_.sizes; }

  Array read() &&;

 private:
  std::string path_;
  InputFile file_;
  Array array_;
  size_t bytes_ = 0;  // of the data
};

// Throws FileError.
void write_npy(const std::string& path, const Array& array);

}  // namespace vpu::tools
