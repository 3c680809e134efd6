// libFuzzer on bytes: what is no program, or hardly one. Most of it would end at the checksum, so
// it is also tried with the right one, and in place of a blob's FlatBuffer.
#include <algorithm>
#include <cstdlib>

#include "case.h"
#include "check.h"

using namespace vpu::fuzz;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::atexit(print_counts);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check(data, size);
  Bytes blob(data, data + size);
  seal(&blob);
  if (!std::equal(blob.begin(), blob.end(), data)) {
    check(blob.data(), blob.size());
    blob = pack(Bytes(data + std::min<size_t>(size, 64), data + size), Bytes(1024));
    check(blob.data(), blob.size());
  }
  return 0;
}
