#include "tools/outputs.h"

#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

namespace vpu::tools {
namespace {

namespace fs = std::filesystem;

// Whether both name one file; also where it does not exist yet. Devices and pipes are none.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::exists(a, error) || fs::exists(b, error)) return fs::equivalent(a, b, error);
  const fs::path left = fs::weakly_canonical(a, error);
  return !error && left == fs::weakly_canonical(b, error) && !error;
}

void make_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error)) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    throw std::runtime_error("cannot make the directory '" + path +
                             "' of --output-dir: " + error.message());
  }
}

}  // namespace

std::string output_path(const std::string& directory, size_t index) {
  return directory + "/output_" + std::to_string(index) + ".npy";
}

void prepare_outputs(const Options& options, size_t count) {
  std::vector<std::pair<std::string, std::string>> taken = {{"the model", options.model},
                                                            {"the standard output", "/dev/stdout"},
                                                            {"the standard error", "/dev/stderr"}};
  for (const std::string& input : options.inputs) taken.emplace_back("the input", input);
  const auto take = [&taken](const std::string& option, const std::string& path) {
    for (const auto& [what, other] : taken) {
      if (!same_file(path, other)) continue;
      throw std::runtime_error(option + " would write '" + path + "' over " + what + " '" + other +
                               "', expected another place");
    }
    std::error_code error;
    if (fs::is_directory(path, error)) {
      throw std::runtime_error(option + " cannot write '" + path +
                               "': it is a directory, expected a file");
    }
    taken.emplace_back("an output", path);
  };
  if (!options.output_directory.empty()) {
    make_directory(options.output_directory);
    for (size_t i = 0; i < count; ++i) {
      take("--output-dir", output_path(options.output_directory, i));
    }
  }
  if (!options.etdump.empty()) {
    take("--etdump", options.etdump);
    std::error_code error;
    const fs::path directory = fs::absolute(options.etdump, error).parent_path();
    if (!fs::is_directory(directory, error)) {
      throw std::runtime_error("--etdump cannot write '" + options.etdump +
                               "': there is no directory '" + directory.string() + "'");
    }
  }
}

}  // namespace vpu::tools
