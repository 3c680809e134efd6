// An exception ends an execution, and nothing else: the program runs as before afterwards.
//
//   exceptions CASE
//
// The case is three files, of a program with one input and one output: CASE.blob, CASE.inputs and
// CASE.outputs, as replay.cpp has them.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "capi/thread_workers.h"
#include "vpu/interpreter.h"

namespace {

using Bytes = std::vector<char>;  // from the heap, so aligned as blobs must be

void require(bool good, const std::string& what) {
  if (good) return;
  std::fprintf(stderr, "exceptions: %s\n", what.c_str());
  std::exit(1);
}

Bytes read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(bool(file), path + " cannot be read");
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// Throws before or after one instruction.
class Thrower final : public vpu::Observer {
 public:
  Thrower(size_t instruction, bool after) : instruction_(instruction), after_(after) {}
  void before(size_t instruction) override { look(instruction, false); }
  void after(size_t instruction, const void*) override { look(instruction, true); }

 private:
  void look(size_t instruction, bool after) const {
    if (instruction == instruction_ && after == after_) throw std::runtime_error("thrown");
  }

  size_t instruction_;
  bool after_;
};

// Have no memory to start the tasks with, or to end them with.
class Exhausted final : public vpu::Workers {
 public:
  Exhausted(int count, bool after) : workers_(count), after_(after) {}
  int count() const override { return workers_.count(); }
  void run(int tasks, vpu::TaskRef task) override {
    if (after_) workers_.run(tasks, task);
    throw std::bad_alloc();
  }

 private:
  vpu::ThreadWorkers workers_;
  bool after_;
};

class Program {
 public:
  explicit Program(const std::string& path, int threads)
      : blob_(read(path + ".blob")),
        input_(read(path + ".inputs")),
        output_(read(path + ".outputs")),
        threads_(threads) {
    vpu::LoadOptions options;
    options.max_workers = threads;
    const vpu::Status status =
        vpu::Interpreter::load(blob_.data(), blob_.size(), options, &interpreter_);
    require(status.ok(), status.message());
  }

  size_t instructions() const { return interpreter_->instructions().size(); }

  template <class Exception>
  void expect(vpu::Workers& workers, vpu::Observer* observer) {
    const void* inputs[] = {input_.data()};
    Bytes found(output_.size());
    void* outputs[] = {found.data()};
    try {
      const vpu::Status status = interpreter_->execute(inputs, outputs, workers, observer);
      require(false, "no exception came: " + status.message());
    } catch (const Exception&) {
    }
    check();
  }

  void check() {
    const void* inputs[] = {input_.data()};
    Bytes found(output_.size());
    void* outputs[] = {found.data()};
    vpu::ThreadWorkers workers(threads_);
    const vpu::Status status = interpreter_->execute(inputs, outputs, workers);
    require(status.ok(), status.message());
    require(found == output_, "another output on " + std::to_string(threads_) + " threads");
  }

 private:
  Bytes blob_, input_, output_;
  int threads_;
  std::unique_ptr<vpu::Interpreter> interpreter_;
};

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "usage: exceptions CASE");
  for (const int threads : {1, 2, 4}) {
    Program program(argv[1], threads);
    program.check();
    for (size_t i = 0; i < program.instructions(); ++i) {
      for (const bool after : {false, true}) {
        vpu::ThreadWorkers workers(threads);
        Thrower thrower(i, after);
        program.expect<std::runtime_error>(workers, &thrower);
      }
    }
    if (threads == 1) continue;  // nobody calls the workers
    for (const bool after : {false, true}) {
      Exhausted workers(threads, after);
      program.expect<std::bad_alloc>(workers, nullptr);
    }
  }
}
