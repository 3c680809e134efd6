// The files that results go to.
#pragma once

#include <string>

#include "tools/options.h"

namespace vpu::tools {

// Where an output goes: DIR/output_0.npy.
std::string output_path(const std::string& directory, size_t index);

// Makes --output-dir, and refuses before the method runs what could only fail after it: a place
// that cannot be written to, and one that would overwrite the model, an input or what is printed.
// `count`: of the method's outputs. Throws std::runtime_error in words.
void prepare_outputs(const Options& options, size_t count);

}  // namespace vpu::tools
