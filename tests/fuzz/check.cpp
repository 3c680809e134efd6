#include "check.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "capi/thread_workers.h"
#include "case.h"
#include "interpreter/crc32.h"
#include "random.h"
#include "vpu.h"
#include "vpu/interpreter.h"
#include "watch.h"

namespace vpu::fuzz {
namespace {

// The interpreter refuses what is beyond these: it would take long, not find more.
constexpr uint64_t kMostMemory = uint64_t{1} << 26;
constexpr uint64_t kMostWork = 4'000'000;

// What loading may take on the heap beyond the memory limit: for each byte of the blob, and anyway.
constexpr uint64_t kUncounted = 4;
constexpr uint64_t kUncountedBase = 16384;

constexpr double kMostSeconds = 10;  // of loading, by the process's clock

constexpr int kMostWorkers = 3;

struct Counts {
  uint64_t refused = 0;
  uint64_t beyond_limits = 0;  // of those
  uint64_t too_large = 0;
  uint64_t ran = 0;
  uint64_t executions = 0;
} counts;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (size_t i = 0; i < vpu_isa_count(); ++i) {
    vpu_isa isa;
    if (vpu_isa_at(i, &isa) == VPU_OK && isa.available != 0) names.emplace_back(isa.name);
  }
  return names;
}

// Beyond a limit, which may hold for one set and not for another: what a set packs and copies is
// its own; what it computes is not.
bool is_beyond(const Status& status) {
  return status.message().find("raise the limit (VPU_") != std::string::npos;
}

// No limit of the interpreter's holds for what is its caller's.
uint64_t argument_bytes(const Interpreter& interpreter) {
  uint64_t bytes = 0;
  for (const auto* infos : {&interpreter.inputs(), &interpreter.outputs()}) {
    for (const ArgumentInfo& info : *infos) bytes += info.bytes;
  }
  return bytes;
}

// Tasks one after another on the calling thread: as another thread would see them, at no cost.
class InTurn final : public Workers {
 public:
  explicit InTurn(int count) : count_(count) {}
  int count() const override { return count_; }
  void run(int tasks, TaskRef task) override {
    for (int t = tasks; t-- > 0;) task(t);
  }

 private:
  int count_;
};

// Buffers of exactly as many bytes as the arguments have, at any alignment that they may have.
class Arguments {
 public:
  Arguments(const std::vector<ArgumentInfo>& infos, Random* random) {
    for (const ArgumentInfo& info : infos) {
      const size_t element = element_bytes(info.dtype);
      const size_t shift = random->below(17) * element;
      buffers_.emplace_back(shift + info.bytes, uint8_t{0x5a});
      buffers_.back().shrink_to_fit();
      pointers_.push_back(buffers_.back().data() + shift);
    }
  }

  void randomize(const std::vector<ArgumentInfo>& infos, Random* random) {
    for (size_t i = 0; i < infos.size(); ++i) {
      if (infos[i].dtype == schema::DType_Float32) {
        randomize_floats(static_cast<float*>(pointers_[i]), infos[i].bytes / 4, random);
      } else {
        randomize_bytes(static_cast<uint8_t*>(pointers_[i]), infos[i].bytes, random);
      }
    }
  }

  void** pointers() { return pointers_.data(); }

 private:
  static void randomize_bytes(uint8_t* bytes, size_t size, Random* random) {
    const bool extremes = random->one_in(4);
    for (size_t i = 0; i < size; ++i) {
      const auto byte = static_cast<uint8_t>(random->next() >> 16);
      bytes[i] = extremes ? (byte & 1) + 0x7f : byte;
    }
  }

  static void randomize_floats(float* values, size_t size, Random* random) {
    static const std::vector<float> special = {0.5f,  1.5f,   -0.5f,    2.5f,      -0.0f,   1e-45f,
                                               3e38f, -3e38f, 1.0f / 0, -1.0f / 0, 0.0f / 0};
    for (size_t i = 0; i < size; ++i) {
      const uint64_t bits = random->next();
      values[i] = bits % 8 == 0 ? random->pick(special)
                                : static_cast<float>(static_cast<int32_t>(bits >> 32)) / (1 << 23);
    }
  }

  std::vector<Bytes> buffers_;
  std::vector<void*> pointers_;
};

class Checker {
 public:
  Checker(const uint8_t* data, size_t size)
      : data_(data), size_(size), random_(crc32(0, data, size)) {
    if (random_.one_in(16)) memory_limit_ >>= random_.below(18);
  }

  void run() {
    static const std::vector<std::string> isas = available_isas();
    std::unique_ptr<Interpreter> reference;
    const Status status = load(isas.front(), kMostWorkers, &reference);
    if (!status.ok()) {
      ++counts.refused;
      if (status.message().size() < 20) fail("it is refused without a reason");
      const bool costs = is_beyond(status);
      if (costs) ++counts.beyond_limits;
      // All sets refuse the same; a sample of them tells.
      std::unique_ptr<Interpreter> other;
      if (random_.one_in(8) && load(random_.pick(isas), 1, &other).ok() && !costs) {
        fail(std::string(other->isa()) + " takes what " + isas.front() +
             " refuses: " + status.message());
      }
      return;
    }
    if (argument_bytes(*reference) > kMostMemory) {
      ++counts.too_large;
      return;
    }
    ++counts.ran;
    Arguments inputs(reference->inputs(), &random_);
    inputs.randomize(reference->inputs(), &random_);
    Arguments expected(reference->outputs(), &random_);
    SerialWorkers serial;
    execute(reference.get(), &inputs, &expected, serial);
    compare(reference.get(), random_.between(2, kMostWorkers), &inputs, &expected);
    for (size_t i = 1; i < isas.size(); ++i) {
      const int workers = random_.one_in(2) ? 1 : random_.between(2, kMostWorkers);
      std::unique_ptr<Interpreter> interpreter;
      const Status loaded = load(isas[i], workers, &interpreter);
      if (loaded.ok()) {
        compare(interpreter.get(), workers, &inputs, &expected);
      } else if (!is_beyond(loaded)) {
        fail(isas[i] + " refuses what scalar takes: " + loaded.message());
      }
    }
  }

 private:
  static ThreadWorkers& threads() {
    static ThreadWorkers& pool = *new ThreadWorkers(kMostWorkers);
    return pool;
  }

  // The blob is gone once it is loaded.
  Status load(const std::string& isa, int workers, std::unique_ptr<Interpreter>* out) const {
    const std::unique_ptr<uint8_t[]> blob(new uint8_t[size_]);
    if (size_ > 0) std::memcpy(blob.get(), data_, size_);
    LoadOptions options;
    options.isa = isa;
    options.max_workers = workers;
    options.memory_limit = memory_limit_;
    options.work_limit = kMostWork;
    const Watch watch;
    Status status = Interpreter::load(blob.get(), size_, options, out);
    if (watch.peak_bytes() > memory_limit_ + kUncounted * size_ + kUncountedBase) {
      fail("loading takes " + std::to_string(watch.peak_bytes()) + " bytes; the limit is " +
           std::to_string(memory_limit_));
    }
    if (watch.seconds() > kMostSeconds) {
      fail("loading takes " + std::to_string(watch.seconds()) + " seconds: " + status.message());
    }
    return status;
  }

  static void execute(Interpreter* interpreter, Arguments* inputs, Arguments* outputs,
                      Workers& workers) {
    ++counts.executions;
    const Status status = interpreter->execute(inputs->pointers(), outputs->pointers(), workers);
    if (!status.ok()) fail("it does not run: " + status.message());
  }

  // Rarely with threads: handing over to them takes longer than most programs do.
  void compare(Interpreter* interpreter, int count, Arguments* inputs, Arguments* expected) {
    InTurn in_turn(count);
    Workers& workers = random_.one_in(64) ? static_cast<Workers&>(threads()) : in_turn;
    Arguments found(interpreter->outputs(), &random_);
    execute(interpreter, inputs, &found, workers);
    for (size_t i = 0; i < interpreter->outputs().size(); ++i) {
      const size_t bytes = interpreter->outputs()[i].bytes;
      const auto* a = static_cast<const uint8_t*>(expected->pointers()[i]);
      const auto* b = static_cast<const uint8_t*>(found.pointers()[i]);
      if (std::memcmp(a, b, bytes) == 0) continue;
      size_t at = 0;
      while (a[at] == b[at]) ++at;
      fail(std::string(interpreter->isa()) + " with " + std::to_string(workers.count()) +
           " workers gives other bits than scalar with one: byte " + std::to_string(at) + " of " +
           std::to_string(bytes) + " of output " + std::to_string(i) + " is " +
           std::to_string(b[at]) + ", not " + std::to_string(a[at]));
    }
  }

  const uint8_t* data_;
  size_t size_;
  Random random_;
  uint64_t memory_limit_ = kMostMemory;
};

}  // namespace

bool is_within(const Bytes& blob, uint64_t work) {
  LoadOptions options;
  options.isa = "scalar";
  options.memory_limit = kMostMemory;
  options.work_limit = work;
  std::unique_ptr<Interpreter> interpreter;
  const Status status = Interpreter::load(blob.data(), blob.size(), options, &interpreter);
  if (!status.ok()) return !is_beyond(status);
  return argument_bytes(*interpreter) <= 4 * work;
}

void check(const uint8_t* data, size_t size) { Checker(data, size).run(); }

void print_counts() {
  std::fprintf(
      stderr,
      "fuzz: %" PRIu64 " blobs ran, in %" PRIu64 " executions; %" PRIu64 " were refused, %" PRIu64
      " of them beyond a limit; %" PRIu64 " had arguments too large to pass\n",
      counts.ran, counts.executions, counts.refused, counts.beyond_limits, counts.too_large);
}

}  // namespace vpu::fuzz
