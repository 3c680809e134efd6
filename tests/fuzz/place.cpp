#include "place.h"

#include <algorithm>

namespace vpu::fuzz {
namespace {

constexpr size_t kResidual = 4;

struct Life {
  size_t first = SIZE_MAX;  // the instruction that writes it
  size_t last = 0;          // the last that reads it
  uint64_t begin = 0;
  uint64_t end = 0;
};

bool in_arena(const Case& c, size_t index) {
  return c.tensor(index).storage == schema::Storage_Arena;
}

uint64_t bytes_of(const schema::TensorT& tensor) {
  return static_cast<uint64_t>(std::min(elements_of(tensor.shape), 1e12)) *
         element_bytes(tensor.dtype);
}

// What a view is of may be an argument or a constant by now.
void place_views(Case* c) {
  for (size_t i = 0; i < c->program.tensors.size(); ++i) {
    if (c->bases[i] == kNoBase) continue;
    c->tensor(i).storage = c->tensor(c->root(i)).storage;
    c->tensor(i).offset = c->tensor(c->root(i)).offset;
  }
}

}  // namespace

void place(Case* c, Random* random) {
  auto& instructions = c->program.instructions;
  std::vector<Life> lives(c->program.tensors.size());
  for (size_t i = 0; i < instructions.size(); ++i) {
    for (const uint32_t input : instructions[i]->inputs) {
      if (input < lives.size()) lives[c->root(input)].last = i;
    }
    if (instructions[i]->output < lives.size()) lives[instructions[i]->output].first = i;
  }
  const uint64_t alignment = random->pick(std::vector<uint64_t>{64, 64, 64, 16, 4, 1});
  const bool reuses = !random->one_in(4);
  std::vector<size_t> placed;
  c->program.arena_size = 0;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const size_t index = instructions[i]->output;
    if (index >= lives.size() || !in_arena(*c, index)) continue;
    Life& life = lives[index];
    life.last = std::max(life.last, life.first);
    const uint64_t bytes = bytes_of(c->tensor(index));
    const uint64_t step = std::max<uint64_t>(alignment, element_bytes(c->tensor(index).dtype));
    const auto& inputs = instructions[i]->inputs;
    const size_t residual = inputs.size() > kResidual && inputs[kResidual] < lives.size()
                                ? c->root(inputs[kResidual])
                                : SIZE_MAX;
    const bool takes_over =
        residual != SIZE_MAX && in_arena(*c, residual) && lives[residual].last == i &&
        bytes_of(c->tensor(residual)) == bytes &&
        std::count_if(inputs.begin(), inputs.end(),
                      [&](uint32_t k) { return c->root(k) == residual; }) == 1 &&
        random->one_in(2);
    life.begin = takes_over ? lives[residual].begin : 0;
    // The lowest that is free; each neighbour in its way pushes it up.
    for (bool moved = !takes_over; moved;) {
      moved = false;
      for (const size_t other : placed) {
        const Life& o = lives[other];
        const bool meets = !reuses || (o.first <= life.last && life.first <= o.last);
        if (!meets || life.begin >= o.end || o.begin >= life.begin + bytes) continue;
        life.begin = (o.end + step - 1) / step * step;
        moved = true;
      }
    }
    life.end = life.begin + bytes;
    placed.push_back(index);
    c->tensor(index).offset = life.begin;
    c->program.arena_size = std::max(c->program.arena_size, life.end);
  }
  if (random->one_in(2)) c->program.arena_size = (c->program.arena_size + 63) & ~uint64_t{63};
  place_views(c);
}

}  // namespace vpu::fuzz
