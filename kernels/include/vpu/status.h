// Success, or what is wrong in words.
#pragma once

#include <string>
#include <utility>

#include "vpu/export.h"

namespace vpu {

enum class Code {
  kOk,
  kIncompatible,  // not a VPU blob, or one of another version
  kCorrupt,       // a VPU blob that is damaged or inconsistent
  kUnavailable,   // what was asked for is not on this machine (an instruction set, memory)
  kBadArgument,   // an input or output that is not what the program declares
  kBusy,          // the program is being executed already
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// printf-style.
[[gnu::format(printf, 2, 3)]] VPU_EXPORT Status error(Code code, const char* format, ...);

#define VPU_RETURN_IF_ERROR(expression)   \
  do {                                    \
    ::vpu::Status status_ = (expression); \
    if (!status_.ok()) return status_;    \
  } while (false)

}  // namespace vpu
