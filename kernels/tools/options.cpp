#include "tools/options.h"

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>

namespace vpu::tools {

const char* const kUsage = R"(Usage: vpu_runner MODEL.pte [options]

Runs a method of an ExecuTorch program, VPU subgraphs and all, and summarizes its outputs.

  --input FILE       an input, in the method's order; repeat it for every input. A .npy file has the
                     input's dtype and logical shape; any other file holds its raw bytes in the
                     memory format the method declares. Without --input, inputs are random.
  --seed N           of random inputs (default 0)
  --output-dir DIR   save the outputs there as output_0.npy, output_1.npy, ...
  --method NAME      the method to run (default forward)
  --repeat N         run N times and print the time (default 1)
  --warmup N         run N times before, untimed (default 0)
  --threads N        the size of ExecuTorch's thread pool (default: ExecuTorch's choice)
  --profile          print the time of every VPU instruction and of the operators outside the VPU
  --isa NAME         the instruction set of the VPU's kernels (default: $VPU_ISA, else the best)
  --etdump FILE      write an ETDump for ExecuTorch's Inspector; not together with --profile
  --help             print this
  --version          print the versions of vpu_runner and of the ExecuTorch it was built against

Exit status: 0 success, 1 the program cannot be loaded or run, 2 wrong arguments.
)";

namespace {

uint64_t parse_number(const std::string& option, const char* text, uint64_t least, uint64_t most) {
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text, &end, 10);
  const bool digits = *text >= '0' && *text <= '9' && *end == '\0';
  if (!digits || errno != 0 || value < least || value > most) {
    throw UsageError(option + " expects a whole number from " + std::to_string(least) + " to " +
                     std::to_string(most) + ", got '" + text + "'");
  }
  return value;
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  std::string option;  // the one that is being read, for messages
  const auto text = [](std::string& target) {
    return [&target](const char* value) { target = value; };
  };
  const auto count = [&option](int& target, int least) {
    return [&target, &option, least](const char* value) {
      target = static_cast<int>(parse_number(option, value, static_cast<uint64_t>(least), 1000000));
    };
  };
  const std::map<std::string, std::function<void(const char*)>> with_value = {
      {"--input", [&](const char* value) { options.inputs.emplace_back(value); }},
      {"--seed",
       [&](const char* value) {
         options.seed = parse_number(option, value, 0, std::numeric_limits<uint64_t>::max());
       }},
      {"--output-dir", text(options.output_directory)},
      {"--method", text(options.method)},
      {"--repeat", count(options.repeat, 1)},
      {"--warmup", count(options.warmup, 0)},
      {"--threads", count(options.threads, 1)},
      {"--isa", text(options.isa)},
      {"--etdump", text(options.etdump)},
  };
  const std::map<std::string, bool*> flags = {
      {"--profile", &options.profile}, {"--help", &options.help}, {"--version", &options.version}};

  for (int i = 1; i < argc; ++i) {
    option = argv[i];
    const size_t equals = option.find('=');
    if (option.rfind("--", 0) != 0) {
      if (!options.model.empty()) {
        throw UsageError("expected one model, got '" + options.model + "' and '" + option + "'");
      }
      options.model = option;
    } else if (const auto flag = flags.find(option); flag != flags.end()) {
      *flag->second = true;
    } else if (const auto set = with_value.find(option.substr(0, equals));
               set != with_value.end()) {
      option = set->first;
      const char* value = nullptr;
      if (equals != std::string::npos) {
        value = argv[i] + equals + 1;
      } else if (i + 1 < argc) {
        value = argv[++i];
      } else {
        throw UsageError(option + " expects a value");
      }
      set->second(value);
    } else {
      throw UsageError("unknown option '" + option + "'");
    }
  }
  if (options.help || options.version) return options;
  if (options.model.empty()) throw UsageError("expected a model: a .pte file");
  if (options.profile && !options.etdump.empty()) {
    throw UsageError("--profile and --etdump exclude each other: a method has one event tracer");
  }
  return options;
}

}  // namespace vpu::tools
