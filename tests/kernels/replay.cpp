// Runs recorded cases on every instruction set this CPU has, and compares bits: for CPUs that
// Python does not run on, such as an emulated one.
//
//   replay DIRECTORY THREADS...
//
// A case is three files: NAME.blob, NAME.inputs and NAME.outputs, each with all its arguments one
// after another, as they lie in memory. A set that the CPU lacks must be refused.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "vpu.h"

namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<char>;  // from the heap, so aligned as blobs must be

struct Case {
  std::string name;
  Bytes blob;
  Bytes inputs;
  Bytes outputs;
};

Bytes read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
    std::exit(2);
  }
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

std::vector<Case> read_cases(const fs::path& directory) {
  std::vector<Case> cases;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    fs::path path = entry.path();
    if (path.extension() != ".blob") continue;
    cases.push_back({path.stem(), read(path), read(path.replace_extension(".inputs")),
                     read(path.replace_extension(".outputs"))});
  }
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

// A buffer for each argument.
class Arguments {
 public:
  Arguments(const vpu_program* program, size_t count,
            vpu_code (*describe)(const vpu_program*, size_t, vpu_argument*)) {
    for (size_t i = 0; i < count; ++i) {
      vpu_argument argument;
      describe(program, i, &argument);
      buffers_.emplace_back(argument.bytes, '\x5a');
      pointers_.push_back(buffers_.back().data());
    }
  }

  void assign(const Bytes& all) {
    const char* from = all.data();
    for (Bytes& buffer : buffers_) {
      std::copy_n(from, buffer.size(), buffer.data());
      from += buffer.size();
    }
  }

  Bytes joined() const {
    Bytes all;
    for (const Bytes& buffer : buffers_) all.insert(all.end(), buffer.begin(), buffer.end());
    return all;
  }

  void** pointers() { return pointers_.data(); }

 private:
  std::vector<Bytes> buffers_;
  std::vector<void*> pointers_;
};

// Says what is wrong, if anything, and whether all is well.
bool matches(vpu_program* program, const Case& c, int threads) {
  Arguments inputs(program, vpu_input_count(program), vpu_input_at);
  Arguments outputs(program, vpu_output_count(program), vpu_output_at);
  if (inputs.joined().size() != c.inputs.size()) {
    std::printf("%s: its inputs are not %zu bytes\n", c.name.c_str(), c.inputs.size());
    return false;
  }
  inputs.assign(c.inputs);
  const vpu_code code =
      vpu_execute(program, inputs.pointers(), outputs.pointers(), threads, nullptr);
  if (code == VPU_OK && outputs.joined() == c.outputs) return true;
  std::printf("%s: differs on %s with %d threads\n", c.name.c_str(), vpu_isa_of(program), threads);
  return false;
}

bool all_match(const std::vector<Case>& cases, const char* isa, const std::vector<int>& threads) {
  bool match = true;
  for (const Case& c : cases) {
    vpu_program* program = nullptr;
    const int most = *std::max_element(threads.begin(), threads.end());
    if (vpu_load(c.blob.data(), c.blob.size(), isa, most, &program) != VPU_OK) {
      std::printf("%s: %s\n", c.name.c_str(), vpu_last_error());
      match = false;
      continue;
    }
    for (const int count : threads) match &= matches(program, c, count);
    vpu_destroy(program);
  }
  if (match) std::printf("%s: %zu cases match\n", isa, cases.size());
  return match;
}

bool refuses(const Case& c, const char* isa) {
  vpu_program* program = nullptr;
  const vpu_code code = vpu_load(c.blob.data(), c.blob.size(), isa, 1, &program);
  std::printf("%s: %s\n", isa, code == VPU_OK ? "loads all the same" : vpu_last_error());
  vpu_destroy(program);
  return code == VPU_UNAVAILABLE;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: replay DIRECTORY THREADS...\n");
    return 2;
  }
  const std::vector<Case> cases = read_cases(argv[1]);
  if (cases.empty()) {
    std::fprintf(stderr, "%s: no cases\n", argv[1]);
    return 2;
  }
  std::vector<int> threads;
  for (int i = 2; i < argc; ++i) threads.push_back(std::atoi(argv[i]));

  bool good = true;
  for (size_t i = 0; i < vpu_isa_count(); ++i) {
    vpu_isa isa;
    vpu_isa_at(i, &isa);
    good &= isa.available != 0 ? all_match(cases, isa.name, threads) : refuses(cases[0], isa.name);
  }
  vpu_program* program = nullptr;
  good &= vpu_load(cases[0].blob.data(), cases[0].blob.size(), nullptr, 1, &program) == VPU_OK;
  std::printf("chosen: %s\n", program != nullptr ? vpu_isa_of(program) : vpu_last_error());
  vpu_destroy(program);
  return good ? 0 : 1;
}
