#include "interpreter/dataflow.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <utility>

#include "vpu/kernel.h"

namespace vpu {
namespace {

// Disjoint ranges of bytes. Every operation takes the logarithm of their number, and that of as
// many as it removes.
class Ranges {
 public:
  using Map = std::map<uint64_t, uint64_t>;  // begin -> end

  // The first range that ends after `offset`.
  Map::iterator first_after(uint64_t offset) {
    auto it = ranges_.upper_bound(offset);
    if (it != ranges_.begin() && std::prev(it)->second > offset) --it;
    return it;
  }

  // Takes away every range that overlaps this one, and answers what they stretched over.
  std::pair<uint64_t, uint64_t> remove(uint64_t begin, uint64_t end) {
    std::pair<uint64_t, uint64_t> removed{begin, end};
    auto it = first_after(begin);
    while (it != ranges_.end() && it->first < end) {
      removed = {std::min(removed.first, it->first), std::max(removed.second, it->second)};
      it = ranges_.erase(it);
    }
    return removed;
  }

  void add(uint64_t begin, uint64_t end) {
    if (begin < end) ranges_[begin] = end;
  }

  bool contains(uint64_t begin, uint64_t end) {
    const auto it = first_after(begin);
    return it != ranges_.end() && it->first <= begin && end <= it->second;
  }

  // With neighbours made one.
  void join(uint64_t begin, uint64_t end) {
    const auto after = ranges_.find(end);
    if (after != ranges_.end()) {
      end = after->second;
      ranges_.erase(after);
    }
    const auto next = ranges_.lower_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second == begin) {
      std::prev(next)->second = end;
    } else {
      ranges_[begin] = end;
    }
  }

 private:
  Map ranges_;
};

// The arena bytes that hold a value. Overwriting a part of a value ends all of it.
class LiveBytes {
 public:
  void write(uint64_t begin, uint64_t end) {
    const auto [first, last] = values_.remove(begin, end);
    values_.add(begin, end);
    const auto [left, right] = covered_.remove(first, last);
    covered_.add(left, first);
    covered_.add(last, right);
    covered_.join(begin, end);
  }

  bool covers(uint64_t begin, uint64_t end) { return covered_.contains(begin, end); }

 private:
  Ranges values_;
  Ranges covered_;  // by values, those side by side as one
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
