#include "interpreter/dataflow.h"

#include <cinttypes>
#include <map>

#include "vpu/kernel.h"

namespace vpu {
namespace {

// The arena bytes that hold a value. Overwriting a part of a value ends all of it.
class LiveBytes {
 public:
  void write(uint64_t begin, uint64_t end) {
    auto it = first_after(begin);
    while (it != ranges_.end() && it->first < end) it = ranges_.erase(it);
    ranges_[begin] = end;
  }

  bool covers(uint64_t begin, uint64_t end) {
    for (auto it = first_after(begin); it != ranges_.end() && it->first <= begin; ++it) {
      begin = it->second;
      if (begin >= end) return true;
    }
    return false;
  }

 private:
  using Ranges = std::map<uint64_t, uint64_t>;  // begin -> end, disjoint

  // The first range that ends after `offset`.
  Ranges::iterator first_after(uint64_t offset) {
    auto it = ranges_.upper_bound(offset);
    if (it != ranges_.begin() && std::prev(it)->second > offset) --it;
    return it;
  }

  Ranges ranges_;
};

bool overlap(const Place& a, const Place& b) {
  return a.storage == schema::Storage_Arena && b.storage == schema::Storage_Arena &&
         a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool same(const Place& a, const Place& b) { return a.offset == b.offset && a.bytes == b.bytes; }

}  // namespace

Status check_dataflow(const Program& program) {
  LiveBytes arena;
  std::vector<bool> written(program.outputs.size(), false);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const schema::Instruction& instruction = *program.instructions[i];
    const Place& output = program.places[instruction.output()];
    const size_t overwrites = find_kernel(instruction.op_type()).overwrites;
    const size_t operands = instruction.inputs() ? instruction.inputs()->size() : 0;
    for (size_t k = 0; k < operands; ++k) {
      const uint32_t index = instruction.inputs()->Get(static_cast<uint32_t>(k));
      const Place& input = program.places[index];
      const bool defined = input.storage == schema::Storage_Arena
                               ? arena.covers(input.offset, input.offset + input.bytes)
                               : input.storage != schema::Storage_Output || written[input.offset];
      if (!defined) {
        return error(Code::kCorrupt,
                     "%s reads tensor %" PRIu32
                     ", which holds no value there: no earlier "
                     "instruction wrote it, or a later one overwrote it",
                     describe(program, i).c_str(), index);
      }
      if (overlap(input, output) && !(k == overwrites && same(input, output))) {
        return error(Code::kCorrupt, "%s writes over tensor %" PRIu32 ", which it reads",
                     describe(program, i).c_str(), index);
      }
    }
    if (output.storage == schema::Storage_Arena) {
      arena.write(output.offset, output.offset + output.bytes);
    } else if (output.storage == schema::Storage_Output && !written[output.offset]) {
      written[output.offset] = true;
    } else {
      return error(Code::kCorrupt, "%s writes tensor %" PRIu32 ", which is %s",
                   describe(program, i).c_str(), instruction.output(),
                   output.storage == schema::Storage_Output ? "an output that was written before"
                                                            : "not one to write to");
    }
  }
  for (size_t i = 0; i < written.size(); ++i) {
    if (!written[i]) return error(Code::kCorrupt, "no instruction writes output %zu", i);
  }
  return {};
}

}  // namespace vpu
