// The command line of vpu_runner.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace vpu::tools {

struct Options {
  std::string model;
  std::string method = "forward";
  std::vector<std::string> inputs;
  std::string output_directory;
  std::string etdump;
  std::string isa;
  uint64_t seed = 0;
  int repeat = 1;
  int warmup = 0;
  int threads = 0;  // 0: as many as ExecuTorch chooses
  bool profile = false;
  bool help = false;
  bool version = false;
};

extern const char* const kUsage;

// A command line that is not understood; what() says what was expected.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

Options parse_options(int argc, const char* const* argv);

}  // namespace vpu::tools
