// Runs the method "forward" of a .pte with inputs of ones, and prints its outputs.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor_ptr_maker.h>

#include <cstdio>
#include <string>
#include <vector>

using executorch::aten::ScalarType;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;

namespace {

int fail(const std::string& what, Error error) {
  std::fprintf(stderr, "embed: cannot %s: %s\n", what.c_str(),
               executorch::runtime::to_string(error));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "Usage: embed MODEL.pte\n");
    return 2;
  }
  Module module(argv[1], Module::LoadMode::Mmap);
  if (Error error = module.load_forward(); error != Error::Ok) {
    return fail(std::string("load '") + argv[1] + "'", error);
  }
  const auto meta = module.method_meta("forward");
  if (!meta.ok()) return fail("read what 'forward' takes", meta.error());

  std::vector<TensorPtr> tensors;  // own the memory of the inputs
  std::vector<EValue> inputs;
  for (size_t i = 0; i < meta->num_inputs(); ++i) {
    const auto info = meta->input_tensor_meta(i);
    if (!info.ok()) return fail("give an input that is not a tensor", info.error());
    if (info->scalar_type() != ScalarType::Float) {
      return fail("give an input that is not float32", Error::NotSupported);
    }
    tensors.push_back(executorch::extension::ones({info->sizes().begin(), info->sizes().end()}));
    inputs.emplace_back(tensors.back());
  }

  const auto outputs = module.forward(inputs);
  if (!outputs.ok()) return fail("run 'forward'", outputs.error());
  for (const EValue& output : *outputs) {
    if (!output.isTensor() || output.toTensor().scalar_type() != ScalarType::Float) {
      return fail("print an output that is not of float32", Error::NotSupported);
    }
    const float* values = output.toTensor().const_data_ptr<float>();
    for (ssize_t i = 0; i < output.toTensor().numel(); ++i) std::printf("%.9g\n", values[i]);
  }
  return 0;
}
