// libFuzzer on programs: changes keep most of them such as load, and repair the header.
#include <cstdlib>
#include <cstring>

#include "case.h"
#include "check.h"
#include "constants.h"
#include "mutate.h"
#include "place.h"
#include "settle.h"

using namespace vpu::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kMostInstructions = 12;  // of two programs that are joined

// Most programs stay small, so that there are many of them; some are as large as any that is
// loaded.
uint64_t most_work(Random* random) {
  return random->one_in(1024) ? 4'000'000 : random->one_in(64) ? 200'000 : 10'000;
}

size_t write(const Bytes& blob, uint8_t* data, size_t max_size) {
  if (blob.size() > max_size) return 0;
  std::memcpy(data, blob.data(), blob.size());
  return blob.size();
}

// The program settled, or damaged after that; 0 if it does not fit or would take too long.
size_t finish(Case* c, Random* random, uint8_t* data, size_t max_size) {
  const uint64_t most = most_work(random);
  Bytes constants, blob;
  for (int attempts = 16;; --attempts) {
    settle(c, random);
    place(c, random);
    if (constant_bytes(*c) <= static_cast<double>(max_size)) {
      fill_constants(c, random);
      constants = place_constants(c);
      blob = pack(c->program, constants);
      if (is_within(blob, most)) break;
    }
    if (attempts == 0) return 0;
    shrink(c);
  }
  if (random->one_in(6)) {
    for (size_t n = 1 + random->below(3); n > 0; --n) damage(&c->program, random);
    blob = pack(c->program, constants);
  }
  if (random->one_in(64)) {  // anywhere, with a checksum that is right
    for (size_t n = 1 + random->below(4); n > 0; --n) {
      blob[random->below(blob.size())] = static_cast<uint8_t>(random->next());
    }
    seal(&blob);
  }
  return write(blob, data, max_size);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::atexit(print_counts);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  Random random(seed);
  for (int attempt = 0; attempt < 4; ++attempt) {
    Case c;
    if (!read_case(data, size, &c)) return LLVMFuzzerMutate(data, size, max_size);
    for (bool more = true; more; more = random.one_in(2)) change(&c, &random);
    if (const size_t written = finish(&c, &random, data, max_size)) return written;
  }
  return size;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1,
                                            const uint8_t* data2, size_t size2, uint8_t* out,
                                            size_t max_size, unsigned int seed) {
  Random random(seed);
  Case c, other;
  if (!read_case(data1, size1, &c) || !read_case(data2, size2, &other)) return 0;
  if (c.program.instructions.size() + other.program.instructions.size() > kMostInstructions) {
    return 0;
  }
  append(&c, other, &random);
  return finish(&c, &random, out, max_size);
}
