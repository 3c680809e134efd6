// Runs a method of a .pte file. See kUsage in options.cpp.
#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/extension/module/module.h>
#include <executorch/runtime/kernel/thread_parallel_interface.h>
#include <executorch/runtime/platform/platform.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include "tools/array.h"
#include "tools/files.h"
#include "tools/npy.h"
#include "tools/options.h"
#include "tools/outputs.h"
#include "tools/profile.h"
#include "tools/thread_pool.h"
#include "tools/values.h"
#include "vpu.h"

namespace vpu::tools {
namespace {

using executorch::etdump::ETDumpGen;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::EventTracer;
using executorch::runtime::MethodMeta;

// ExecuTorch's log, of which only errors concern a user: they say what the code answered means.
void log_errors(et_timestamp_t, et_pal_log_level_t level, const char*, const char*, size_t,
                const char* message, size_t length) {
  if (level != et_pal_log_level_t::kError && level != et_pal_log_level_t::kFatal) return;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(length), message);
}

// ExecuTorch gives up where it finds a program at odds with itself, and has said why.
void give_up() {
  std::fprintf(stderr, "vpu_runner: ExecuTorch cannot go on with this program\n");
  std::_Exit(1);
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

// Here and not when loading, where a program without a part for the VPU would not ask.
void choose_isa(const std::string& name) {
  int64_t macs = 0, nanoseconds = 0;
  if (vpu_isa_peak(name.c_str(), 0, &macs, &nanoseconds) != VPU_OK) {
    throw std::runtime_error("--isa: " + std::string(vpu_last_error()));
  }
  setenv("VPU_ISA", name.c_str(), 1);
}

void load(Module& module, const Options& options) {
  check(module.load(executorch::runtime::Program::Verification::InternalConsistency),
        "load '" + options.model + "' as an ExecuTorch program");
  const auto names = module.method_names();
  if (names.ok() && names->count(options.method) == 0) {
    throw std::runtime_error("'" + options.model + "' has no method '" + options.method +
                             "', only: " + method_names(module));
  }
  const auto meta = module.method_meta(options.method);
  check(meta.error(), "read what method '" + options.method + "' takes");
  check_memory(*meta);
  check(module.load_method(options.method),
        "load method '" + options.method + "' of '" + options.model + "'");
}

// Whether the sizes of an input may differ from the declared ones is known only when it is set.
void set_inputs(Module& module, const Options& options, const MethodMeta& meta,
                const std::vector<TensorPtr>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (module.set_input(options.method, inputs[i], i) == Error::Ok) continue;
    const auto words = [](const auto& tensor) {
      return describe(tensor.scalar_type(), Sizes(tensor.sizes().begin(), tensor.sizes().end()));
    };
    throw std::runtime_error("input " + std::to_string(i) + " is " +
                             words(*meta.input_tensor_meta(i)) + " and not dynamic, but '" +
                             options.inputs[i] + "' holds " + words(*inputs[i]));
  }
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
  const std::string path = output_path(directory, index);
  write_npy(path, output);
  std::printf("  saved to %s\n", path.c_str());
}

void write_etdump(ETDumpGen& generator, const std::string& path) {
  const executorch::etdump::ETDumpResult result = generator.get_etdump_data();
  if (result.buf == nullptr) throw std::runtime_error("ExecuTorch recorded no ETDump");
  const std::unique_ptr<void, decltype(&std::free)> owner(result.buf, &std::free);
  OutputFile file(path);
  file.write(result.buf, result.size);
  file.commit();
}

void run(const Options& options) {
  check_regular("load", options.model);
  if (!options.isa.empty()) choose_isa(options.isa);
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
  prepare_outputs(options, meta->num_outputs());
  const auto tensors = make_inputs(*meta, options.inputs, options.seed);
  set_inputs(module, options, *meta, tensors);
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
    const Array output = to_array(i, outputs[i]);
    print_summary(stdout, i, output);
    if (!options.output_directory.empty()) save(options.output_directory, i, output);
  }
  print_times(std::move(milliseconds));
  if (profiler != nullptr) profiler->print(stdout, options.repeat);
  if (etdump != nullptr) write_etdump(*etdump, options.etdump);
}

// What is printed may still be on its way.
void flush_results() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw std::runtime_error(std::string("cannot write to the standard output: ") +
                             std::strerror(errno));
  }
}

// A file that is opened must not take the number of a stream that the caller closed, and be written
// into; and what cannot be written is an error with words, not the end of the process.
void secure_streams() {
  const bool closed = ::fcntl(STDOUT_FILENO, F_GETFD) < 0;
  int descriptor = 0;
  do {
    descriptor = ::open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  ::close(descriptor);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  if (closed) throw std::runtime_error("the standard output is closed, expected one to print to");
}

// In one line, whatever a path or a file's text put into it.
int fail(int status, std::string words) {
  for (char& character : words) {
    if (std::iscntrl(static_cast<unsigned char>(character)) != 0) character = '?';
  }
  std::fprintf(stderr, "vpu_runner: %s\n", words.c_str());
  return status;
}

}  // namespace
}  // namespace vpu::tools

int main(int argc, char** argv) {
  using namespace vpu::tools;
  executorch::runtime::register_pal(executorch::runtime::PalImpl::create(
      nullptr, give_up, nullptr, nullptr, log_errors, nullptr, nullptr, "vpu_runner.cpp"));
  try {
    secure_streams();
    const Options options = parse_options(argc, argv);
    if (options.help) {
      std::fputs(kUsage, stdout);
    } else if (options.version) {
      std::printf("vpu_runner %s, built against ExecuTorch %s\n", VPU_VERSION,
                  VPU_EXECUTORCH_VERSION);
    } else {
      run(options);
    }
    flush_results();
    return 0;
  } catch (const UsageError& error) {
    return fail(2, std::string(error.what()) + " (--help lists the options)");
  } catch (const std::bad_alloc&) {
    return fail(1, "this machine has not enough memory to run the program");
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}
