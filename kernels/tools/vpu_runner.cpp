// Runs a method of a .pte file. See kUsage in options.cpp.
#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/extension/module/module.h>
#include <executorch/runtime/kernel/thread_parallel_interface.h>
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>

#include "tools/array.h"
#include "tools/options.h"
#include "tools/profile.h"
#include "tools/thread_pool.h"
#include "tools/values.h"

namespace vpu::tools {
namespace {

using executorch::etdump::ETDumpGen;
using executorch::extension::Module;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::EventTracer;

// ExecuTorch's log, of which only errors concern a user: they say what the code answered means.
void log_errors(et_timestamp_t, et_pal_log_level_t level, const char*, const char*, size_t,
                const char* message, size_t length) {
  if (level != et_pal_log_level_t::kError && level != et_pal_log_level_t::kFatal) return;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(length), message);
}

void check(Error error, const std::string& what) {
  if (error != Error::Ok) {
    throw std::runtime_error("cannot " + what + ": " + executorch::runtime::to_string(error));
  }
}

std::string method_names(Module& module) {
  std::string names;
  const auto all = module.method_names();
  if (!all.ok()) return names;
  for (const std::string& name : *all) names += (names.empty() ? "" : ", ") + name;
  return names;
}

void load(Module& module, const Options& options) {
  check(module.load(executorch::runtime::Program::Verification::InternalConsistency),
        "load '" + options.model + "'");
  const auto names = module.method_names();
  if (names.ok() && names->count(options.method) == 0) {
    throw std::runtime_error("'" + options.model + "' has no method '" + options.method +
                             "', only: " + method_names(module));
  }
  check(module.load_method(options.method),
        "load method '" + options.method + "' of '" + options.model + "'");
}

std::vector<EValue> execute(Module& module, const Options& options,
                            const std::vector<EValue>& inputs) {
  auto outputs = module.execute(options.method, inputs);
  check(outputs.error(), "run method '" + options.method + "'");
  return std::move(*outputs);
}

void print_times(std::vector<double> milliseconds) {
  std::sort(milliseconds.begin(), milliseconds.end());
  double sum = 0;
  for (double time : milliseconds) sum += time;
  const size_t runs = milliseconds.size();
  const double median = (milliseconds[(runs - 1) / 2] + milliseconds[runs / 2]) / 2;
  std::printf("time: min %.3f ms  median %.3f ms  mean %.3f ms  over %zu run%s, %d thread%s\n",
              milliseconds.front(), median, sum / static_cast<double>(runs), runs,
              runs == 1 ? "" : "s", static_cast<int>(executorch::extension::get_thread_count()),
              executorch::extension::get_thread_count() == 1 ? "" : "s");
}

void save(const std::string& directory, size_t index, const Array& output) {
  std::filesystem::create_directories(directory);
  const std::string path = directory + "/output_" + std::to_string(index) + ".npy";
  write_npy(path, output);
  std::printf("  saved to %s\n", path.c_str());
}

void write_etdump(ETDumpGen& generator, const std::string& path) {
  const executorch::etdump::ETDumpResult result = generator.get_etdump_data();
  if (result.buf == nullptr) throw std::runtime_error("ExecuTorch recorded no ETDump");
  const std::unique_ptr<void, decltype(&std::free)> owner(result.buf, &std::free);
  write_file(path, result.buf, result.size);
}

void run(const Options& options) {
  if (!options.isa.empty()) setenv("VPU_ISA", options.isa.c_str(), 1);
  if (options.threads > 0) set_threads(static_cast<uint32_t>(options.threads));

  std::unique_ptr<EventTracer> tracer;  // the module's; the pointers below say which kind it is
  Profiler* profiler = nullptr;
  ETDumpGen* etdump = nullptr;
  if (options.profile) tracer.reset(profiler = new Profiler);
  if (!options.etdump.empty()) tracer.reset(etdump = new ETDumpGen);
  Module module(options.model, Module::LoadMode::Mmap, std::move(tracer));
  load(module, options);

  const auto meta = module.method_meta(options.method);
  check(meta.error(), "read what method '" + options.method + "' takes");
  const auto tensors = make_inputs(*meta, options.inputs, options.seed);
  const std::vector<EValue> inputs(tensors.begin(), tensors.end());

  for (int i = 0; i < options.warmup; ++i) execute(module, options, inputs);
  if (profiler != nullptr) profiler->reset();
  std::vector<double> milliseconds;
  std::vector<EValue> outputs;
  for (int i = 0; i < options.repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    outputs = execute(module, options, inputs);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    milliseconds.push_back(time.count());
  }

  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].isTensor()) {
      std::printf("output %zu: not a tensor\n", i);
      continue;
    }
    const Array output = to_array(outputs[i]);
    print_summary(stdout, i, output);
    if (!options.output_directory.empty()) save(options.output_directory, i, output);
  }
  print_times(std::move(milliseconds));
  if (profiler != nullptr) profiler->print(stdout, options.repeat);
  if (etdump != nullptr) write_etdump(*etdump, options.etdump);
}

}  // namespace
}  // namespace vpu::tools

int main(int argc, char** argv) {
  using namespace vpu::tools;
  executorch::runtime::register_pal(
      executorch::runtime::PalImpl::create(log_errors, "vpu_runner.cpp"));
  try {
    const Options options = parse_options(argc, argv);
    if (options.help) {
      std::fputs(kUsage, stdout);
    } else if (options.version) {
      std::printf("vpu_runner %s, built against ExecuTorch %s\n", VPU_VERSION,
                  VPU_EXECUTORCH_VERSION);
    } else {
      run(options);
    }
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "vpu_runner: %s (--help lists the options)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vpu_runner: %s\n", error.what());
    return 1;
  }
}
