// Files, read no further than what is needed, and written whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace vpu::tools {

// What the operating system says went wrong, with the path: "cannot read 'x': Permission denied".
class FileError : public std::runtime_error {
 public:
  FileError(const std::string& action, const std::string& path, const std::string& why)
      : std::runtime_error("cannot " + action + " '" + path + "': " + why) {}
};

// A regular file or a pipe, open for reading. All throw FileError.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // How many bytes are left, where that is known: in a regular file.
  std::optional<uint64_t> left() const;

  // The next bytes, fewer than `size` only at the file's end.
  std::vector<uint8_t> read(size_t size);

  // The rest, if that is `size` bytes. Otherwise nothing, and `found` tells how many there are.
  std::optional<std::vector<uint8_t>> read_rest(size_t size, std::string* found);

 private:
  const std::string path_;
  int descriptor_;
  bool unread_pipe_ = false;
  uint64_t size_ = 0;  // 0: not known
  uint64_t position_ = 0;
};

// Refuses what is not a regular file, such as a device or a pipe, without opening it: a pipe would
// wait, a device never end. Throws FileError.
void check_regular(const std::string& action, const std::string& path);

// Collects a file beside its place, where commit() puts it; without commit() nothing is left of it.
// Devices and pipes are written directly. All throw FileError.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, size_t size);
  void commit();

 private:
  const std::string path_;
  std::string target_;  // the path without symbolic links
  std::string aside_;   // empty: written directly, or committed
  int descriptor_;
};

}  // namespace vpu::tools
