#include "tools/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace vpu::tools {
namespace {

// Beyond what one call takes on Linux it reads or writes in several.
constexpr size_t kMostAtOnce = size_t{1} << 30;

constexpr mode_t kEverybody = 0666;  // the process's mask takes away from it
constexpr mode_t kPermissions = 07777;

std::string kind(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a directory";
  if (S_ISFIFO(mode)) return "it is a pipe";
  if (S_ISSOCK(mode)) return "it is a socket";
  return "it is a device";
}

// From here on, reading and writing wait.
void wait_from_now(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
}

// Without waiting for the other end of a pipe, which might never come.
int open_at_once(const std::string& path, int flags, mode_t mode = 0) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

ssize_t read_some(int descriptor, void* data, size_t size) {
  ssize_t count = -1;
  do {
    count = ::read(descriptor, data, std::min(size, kMostAtOnce));
  } while (count < 0 && errno == EINTR);
  return count;
}

}  // namespace

InputFile::InputFile(const std::string& path)
    : path_(path), descriptor_(open_at_once(path, O_RDONLY)) {
  const auto fail = [this](const std::string& why) {
    if (descriptor_ >= 0) ::close(descriptor_);
    return FileError("read", path_, why);
  };
  if (descriptor_ < 0) throw fail(std::strerror(errno));
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) throw fail(std::strerror(errno));
  if (S_ISREG(status.st_mode)) {
    size_ = static_cast<uint64_t>(status.st_size);
  } else if (S_ISFIFO(status.st_mode)) {
    unread_pipe_ = true;
  } else {
    throw fail(kind(status.st_mode) + ", expected a file or a pipe");
  }
}

InputFile::~InputFile() { ::close(descriptor_); }

std::optional<uint64_t> InputFile::left() const {
  if (size_ == 0) return std::nullopt;
  return size_ - std::min(size_, position_);
}

std::vector<uint8_t> InputFile::read(size_t size) {
  std::vector<uint8_t> bytes(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t count = read_some(descriptor_, bytes.data() + done, size - done);
    if (unread_pipe_) {
      if (count == 0) throw FileError("read", path_, "nothing is written into this pipe");
      unread_pipe_ = false;
      const bool early = count < 0 && errno == EAGAIN;  // there is a writer, who has not begun
      wait_from_now(descriptor_);
      if (early) continue;
    }
    if (count < 0) throw FileError("read", path_, std::strerror(errno));
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  position_ += done;
  bytes.resize(done);
  return bytes;
}

std::optional<std::vector<uint8_t>> InputFile::read_rest(size_t size, std::string* found) {
  if (const auto known = left(); known && *known != size) {
    *found = std::to_string(*known);
    return std::nullopt;
  }
  std::vector<uint8_t> bytes = read(size);
  if (bytes.size() < size) {
    *found = std::to_string(bytes.size());
  } else if (!read(1).empty()) {
    *found = "more";
  } else {
    return bytes;
  }
  return std::nullopt;
}

void check_regular(const std::string& action, const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) throw FileError(action, path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) {
    throw FileError(action, path, kind(status.st_mode) + ", expected a file");
  }
}

OutputFile::OutputFile(const std::string& path) : path_(path), target_(path) {
  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) throw FileError("write", path_, kind(status.st_mode));
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = open_at_once(path, O_WRONLY);
    if (descriptor_ < 0) throw FileError("write", path_, std::strerror(errno));
    wait_from_now(descriptor_);
    return;
  }
  if (exists) {
    std::error_code error;
    target_ = std::filesystem::canonical(path, error).string();
    if (error) throw FileError("write", path_, error.message());
    if (::access(target_.c_str(), W_OK) != 0) throw FileError("write", path_, std::strerror(errno));
  }
  const std::string name = ".vpu_runner-" + std::to_string(::getpid()) + ".part";
  aside_ = std::filesystem::path(target_).replace_filename(name).string();
  ::unlink(aside_.c_str());  // of a process that had this number and was killed
  descriptor_ = open_at_once(aside_, O_WRONLY | O_CREAT | O_EXCL, kEverybody);
  if (descriptor_ < 0) throw FileError("write", path_, std::strerror(errno));
  if (exists) ::fchmod(descriptor_, status.st_mode & kPermissions);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!aside_.empty()) ::unlink(aside_.c_str());
}

void OutputFile::write(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  while (size > 0) {
    const ssize_t count = ::write(descriptor_, bytes, std::min(size, kMostAtOnce));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw FileError("write", path_, std::strerror(errno));
    bytes += count;
    size -= static_cast<size_t>(count);
  }
}

void OutputFile::commit() {
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) throw FileError("write", path_, std::strerror(errno));
  if (aside_.empty()) return;
  if (std::rename(aside_.c_str(), target_.c_str()) != 0) {
    throw FileError("write", path_, std::strerror(errno));
  }
  aside_.clear();
}

}  // namespace vpu::tools
