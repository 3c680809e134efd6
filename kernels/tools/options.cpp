#include "tools/options.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "tools/thread_pool.h"

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
  --threads N        the size of ExecuTorch's thread pool, at most 8 for each processor (default:
                     ExecuTorch's choice)
  --profile          print the time of every VPU instruction and of the operators outside the VPU
  --isa NAME         the instruction set of the VPU's kernels (default: $VPU_ISA, else the best)
  --etdump FILE      write an ETDump for ExecuTorch's Inspector; not together with --profile
  -h, --help         print this
  --version          print the versions of vpu_runner and of the ExecuTorch it was built against

Files are regular files; an input may also come from a pipe. Exit status: 0 success, 1 the program
cannot be loaded or run, or its results cannot be written, 2 wrong arguments.
)";

namespace {

constexpr uint64_t kMostRuns = 1000000;

// Of option names: what is not too short to resemble one, and differs in so few characters.
constexpr size_t kShortestName = 4, kLongestName = 32, kNear = 2;

// `why`: of the limits, for the message.
uint64_t parse_number(const std::string& option, const char* text, uint64_t least, uint64_t most,
                      const std::string& why = "") {
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text, &end, 10);
  const bool digits = *text >= '0' && *text <= '9' && *end == '\0';
  if (!digits || errno != 0 || value < least || value > most) {
    throw UsageError(option + " expects a whole number from " + std::to_string(least) + " to " +
                     std::to_string(most) + why + ", got '" + text + "'");
  }
  return value;
}

// How many characters have to be inserted, removed or replaced to make one of the other.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// ", did you mean '--input'?", or nothing if none of the names is near. The beginning of a name is.
std::string suggestion(const std::string& option, const std::vector<std::string>& names) {
  if (option.size() < kShortestName || option.size() > kLongestName) return "";
  const auto far = [&option](const std::string& name) {
    return name.rfind(option, 0) == 0 ? 0 : distance(option, name);
  };
  const auto nearest = std::min_element(names.begin(), names.end(),
                                        [&far](auto& a, auto& b) { return far(a) < far(b); });
  return far(*nearest) > kNear ? "" : ", did you mean '" + *nearest + "'?";
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  std::string option;  // the one that is being read, for messages
  const auto text = [&option](std::string& target) {
    return [&target, &option](const char* value) {
      if (*value == '\0') throw UsageError(option + " expects a value, got ''");
      target = value;
    };
  };
  const auto count = [&option](int& target, uint64_t least) {
    return [&target, &option, least](const char* value) {
      target = static_cast<int>(parse_number(option, value, least, kMostRuns));
    };
  };
  const std::map<std::string, std::function<void(const char*)>> with_value = {
      {"--input", [&](const char* value) { text(options.inputs.emplace_back())(value); }},
      {"--seed",
       [&](const char* value) {
         options.seed = parse_number(option, value, 0, std::numeric_limits<uint64_t>::max());
       }},
      {"--output-dir", text(options.output_directory)},
      {"--method", text(options.method)},
      {"--repeat", count(options.repeat, 1)},
      {"--warmup", count(options.warmup, 0)},
      {"--threads",
       [&](const char* value) {
         const std::string why =
             " (" + std::to_string(kThreadsPerProcessor) + " for each processor)";
         options.threads = static_cast<int>(parse_number(option, value, 1, most_threads(), why));
       }},
      {"--isa", text(options.isa)},
      {"--etdump", text(options.etdump)},
  };
  const std::map<std::string, bool*> flags = {{"--profile", &options.profile},
                                              {"--help", &options.help},
                                              {"-h", &options.help},
                                              {"--version", &options.version}};
  std::set<std::string> seen;

  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind('-', 0) != 0) {
      if (word.empty()) throw UsageError("expected a model, got ''");
      if (!options.model.empty()) {
        throw UsageError("expected one model, got '" + options.model + "' and '" + word + "'");
      }
      options.model = word;
      continue;
    }
    const size_t equals = word.find('=');
    option = word.substr(0, equals);
    const auto flag = flags.find(option);
    const auto set = with_value.find(option);
    if (flag == flags.end() && set == with_value.end()) {
      std::vector<std::string> names;
      for (const auto& [name, target] : flags) names.push_back(name);
      for (const auto& [name, target] : with_value) names.push_back(name);
      throw UsageError("unknown option '" + option + "'" + suggestion(option, names));
    }
    if (!seen.insert(option).second && option != "--input") {
      throw UsageError(option + " is given twice, expected once");
    }
    if (flag != flags.end()) {
      if (equals != std::string::npos) {
        throw UsageError(option + " expects no value, got '" + word.substr(equals + 1) + "'");
      }
      *flag->second = true;
    } else if (equals != std::string::npos) {
      set->second(argv[i] + equals + 1);
    } else if (i + 1 == argc) {
      throw UsageError(option + " expects a value");
    } else if (std::string(argv[i + 1]).rfind("--", 0) == 0) {
      throw UsageError(option + " expects a value, got the option '" + argv[i + 1] + "'");
    } else {
      set->second(argv[++i]);
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
