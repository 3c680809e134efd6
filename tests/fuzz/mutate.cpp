#include "mutate.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "fields.h"

namespace vpu::fuzz {
namespace {

// Around the widths of vectors, tiles and blocks.
const std::vector<int32_t> kSizes = {1,   2,   3,   4,    5,    7,    8,    9,    15,  16,  17,
                                     24,  31,  32,  33,   47,   48,   49,   63,   64,  65,  80,
                                     96,  127, 128, 129,  130,  160,  192,  255,  256, 257, 300,
                                     511, 512, 513, 1000, 1025, 4096, 5000, 20000};
using Limits = std::numeric_limits<int32_t>;
using Floats = std::numeric_limits<float>;
const std::vector<int32_t> kIntegers = {-3,      -2,
                                        -1,      0,
                                        1,       2,
                                        3,       7,
                                        8,       127,
                                        128,     255,
                                        256,     65536,
                                        1 << 30, Limits::max(),
                                        -127,    -128,
                                        -129,    -300,
                                        -65536,  Limits::min()};
const std::vector<float> kFloats = {0.0f,  0.5f,   0.25f,  0.125f, -0.5f, 1.0f,       -1.0f,
                                    1e18f, -1e18f, 1e-30f, 1e-3f,  0.01f, 0.0078125f, 256.0f};
const std::vector<float> kBadFloats = {
    1e30f, -1e30f, 1e-45f, Floats::infinity(), -Floats::infinity(), Floats::quiet_NaN()};
const std::vector<int8_t> kZeroPoints = {-128, -127, -3, 0, 0, 1, 5, 126, 127};

int32_t near(int32_t value, Random* random) {
  const int64_t moved = int64_t{value} + random->between(-3, 3);
  return static_cast<int32_t>(std::clamp<int64_t>(moved, -(int64_t{1} << 31), 0x7fffffff));
}

// A field gets another value, one that may make sense.
struct Change {
  Random& random;

  void operator()(int32_t& field) const {
    field = random.one_in(3) ? random.pick(kSizes) : near(field, &random);
  }
  void operator()(int8_t& field) const { field = static_cast<int8_t>(random.between(-128, 127)); }
  void operator()(float& field) const {
    field = random.one_in(2) ? random.pick(kFloats) : field * (random.one_in(2) ? 0.5f : 1.25f);
  }
  void operator()(Shape& field) const {
    const size_t at = random.below(field.size());
    switch (random.below(5)) {
      case 0:
        field.insert(field.begin() + static_cast<ptrdiff_t>(at), random.between(-1, 5));
        break;
      case 1:
        if (!field.empty()) field.erase(field.begin() + static_cast<ptrdiff_t>(at));
        break;
      case 2:
        if (!field.empty()) std::swap(field[at], field[random.below(field.size())]);
        break;
      default:
        if (!field.empty()) field[at] = near(field[at], &random);
    }
  }
};

// A field gets any value of its type.
struct Damage {
  Random& random;

  template <class T>
  void operator()(T& field) const {
    if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      const auto value = static_cast<int64_t>(random.pick(kIntegers));
      field = static_cast<T>(
          random.one_in(2) ? value : static_cast<int64_t>(field) + random.between(-2, 2));
      if (sizeof(T) == 8 && random.one_in(2))
        field = static_cast<T>(random.next() >> random.below(64));
    } else {
      field = random.one_in(2) ? random.pick(kBadFloats) : random.pick(kFloats);
    }
  }
  template <class T>
  void operator()(std::vector<T>& field) const {
    const auto at = static_cast<ptrdiff_t>(random.below(field.size()));
    const size_t kind = random.below(4);
    if (kind == 0 || field.empty()) {
      field.insert(field.begin() + at, static_cast<T>(random.pick(kIntegers)));
    } else if (kind == 1) {
      field.erase(field.begin() + at);
    } else {
      (*this)(field[static_cast<size_t>(at)]);
    }
  }
};

// One of an instruction's fields.
template <class F>
void visit_one(schema::OpUnion* op, Random* random, F f) {
  size_t count = 0;
  visit_fields(*op, [&](auto&) { ++count; });
  const size_t chosen = random->below(count);
  size_t at = 0;
  visit_fields(*op, [&](auto& field) {
    if (at++ == chosen) f(field);
  });
}

void resize_all(Case* c, int32_t old, int32_t size) {
  for (auto& tensor : c->program.tensors) {
    std::replace(tensor->shape.begin(), tensor->shape.end(), old, size);
  }
  for (auto& instruction : c->program.instructions) {
    schema::Conv2dT* conv = instruction->op.AsConv2d();
    if (conv != nullptr && conv->groups == old) conv->groups = size;
  }
}

class Changer {
 public:
  Changer(Case* c, Random* random) : c_(*c), random_(*random) {}

  void run() {
    switch (random_.below(16)) {
      case 0:
      case 1:
      case 2:
        return resize();
      case 3:
      case 4:
      case 5:
        return visit_one(&any_instruction().op, &random_, Change{random_});
      case 6:
        any_tensor().zero_point = random_.pick(kZeroPoints);
        return;
      case 7:
      case 8:
        return rewrite_constant();
      case 9:
        return swap_operand();
      case 10:
        return store_elsewhere();
      case 11:
        return insert_instruction();
      case 12:
        return drop_or_swap_instructions();
      case 13:
        return change_rank();
      case 14:
        return permute_argument();
      case 15:
        return toggle_residual();
    }
  }

 private:
  schema::InstructionT& any_instruction() {
    return *c_.program.instructions[random_.below(c_.program.instructions.size())];
  }
  size_t any_index() { return random_.below(c_.program.tensors.size()); }
  schema::TensorT& any_tensor() { return c_.tensor(any_index()); }

  // A size that several tensors have in common is changed in all of them, or in one.
  void resize() {
    Shape& shape = any_tensor().shape;
    if (shape.empty()) return;
    const size_t d = random_.below(shape.size());
    const int32_t old = shape[d];
    int32_t size = random_.one_in(2) ? random_.pick(kSizes) : std::max(near(old, &random_), 1);
    if (random_.one_in(8)) size = std::max(old / 2, 1);
    shape[d] = size;
    if (random_.one_in(2)) resize_all(&c_, old, size);
  }

  void rewrite_constant() {
    const size_t first = any_index();
    for (size_t i = 0; i < c_.constants.size(); ++i) {
      Bytes& data = c_.constants[(first + i) % c_.constants.size()];
      if (data.empty()) continue;
      const size_t begin = random_.one_in(2) ? 0 : random_.below(data.size());
      const size_t end = std::min(data.size(), begin + (random_.one_in(2) ? 4 : data.size()));
      const size_t kind = random_.below(4);
      const auto value = static_cast<uint8_t>(random_.pick(std::vector<int>{-127, 127, 0, 1, -1}));
      for (size_t k = begin; k < end; ++k) {
        const auto noise = static_cast<uint8_t>(random_.next() >> 24);
        data[k] = kind == 0 ? value : kind == 1 ? (noise & 1 ? 0x81 : 0x7f) : noise;
      }
      return;
    }
  }

  void swap_operand() {
    auto& inputs = any_instruction().inputs;
    if (!inputs.empty()) inputs[random_.below(inputs.size())] = static_cast<uint32_t>(any_index());
    if (random_.one_in(4)) inputs.push_back(static_cast<uint32_t>(any_index()));  // for Concat
  }

  void store_elsewhere() {
    const size_t index = any_index();
    schema::TensorT& tensor = c_.tensor(index);
    if (c_.root(index) != index) return;
    switch (tensor.storage) {
      case schema::Storage_Constant:
        tensor.storage = schema::Storage_Input;
        break;
      case schema::Storage_Input:
        tensor.storage = schema::Storage_Constant;
        break;
      case schema::Storage_Arena:
        tensor.storage = schema::Storage_Output;
        break;
      case schema::Storage_Output:
        if (c_.program.outputs.size() > 1) tensor.storage = schema::Storage_Arena;
        break;
    }
  }

  // Another that reads what one writes, or writes what one reads; whoever reads it reads the new
  // one's output now, if that has a chance to fit.
  void insert_instruction() {
    auto& list = c_.program.instructions;
    if (list.size() >= 16) return;
    const size_t at = random_.below(list.size());
    auto fresh = std::make_unique<schema::InstructionT>(*list[random_.below(list.size())]);
    if (random_.one_in(3)) choose_op(&fresh->op);
    schema::TensorT output = c_.tensor(list[at]->output % c_.program.tensors.size());
    const uint32_t old = list[at]->output;
    list[at]->output = static_cast<uint32_t>(c_.program.tensors.size());
    if (fresh->inputs.empty()) fresh->inputs.push_back(old);
    fresh->inputs[0] = list[at]->output;
    fresh->output = old;
    output.storage = schema::Storage_Arena;
    c_.add(output);
    list.insert(list.begin() + static_cast<ptrdiff_t>(at) + 1, std::move(fresh));
  }

  void choose_op(schema::OpUnion* op) {
    switch (random_.below(8)) {
      case 0:
        return op->Set(schema::TransposeT());
      case 1:
        return op->Set(schema::LookupT());
      case 2:
        return op->Set(schema::PadT());
      case 3:
        return op->Set(schema::SliceT());
      case 4:
        return op->Set(schema::MaxPool2dT());
      case 5:
        return op->Set(schema::LinearT());
      case 6:
        return op->Set(schema::Conv2dT());
      case 7:
        return op->Set(schema::AddT());
    }
  }

  void drop_or_swap_instructions() {
    auto& list = c_.program.instructions;
    if (list.size() < 2) return;
    const size_t at = random_.below(list.size());
    if (random_.one_in(2)) {
      std::swap(list[at], list[random_.below(list.size())]);
    } else {
      list.erase(list.begin() + static_cast<ptrdiff_t>(at));
    }
  }

  void change_rank() {
    Shape& shape = any_tensor().shape;
    const auto at = static_cast<ptrdiff_t>(random_.below(shape.size() + 1));
    if (random_.one_in(2) && shape.size() < 8) {
      shape.insert(shape.begin() + at, random_.between(1, 3));
    } else if (at < static_cast<ptrdiff_t>(shape.size())) {
      shape.erase(shape.begin() + at);
    }
  }

  void permute_argument() {
    auto& arguments = random_.one_in(2) ? c_.program.inputs : c_.program.outputs;
    if (arguments.empty()) return;
    auto& order = arguments[random_.below(arguments.size())]->dim_order;
    if (!order.empty())
      std::swap(order[random_.below(order.size())], order[random_.below(order.size())]);
  }

  void toggle_residual() {
    for (auto& instruction : c_.program.instructions) {
      auto& inputs = instruction->inputs;
      if (inputs.size() == 5 && random_.one_in(2)) {
        inputs.pop_back();
      } else if (inputs.size() == 4) {
        schema::TensorT residual;
        residual.storage = random_.one_in(4) ? schema::Storage_Constant : schema::Storage_Input;
        residual.zero_point = random_.pick(kZeroPoints);
        inputs.push_back(static_cast<uint32_t>(random_.one_in(2) ? any_index() : c_.add(residual)));
      }
    }
  }

  Case& c_;
  Random& random_;
};

}  // namespace

void change(Case* c, Random* random) { Changer(c, random).run(); }

void shrink(Case* c) {
  int32_t largest = 1;
  for (const auto& tensor : c->program.tensors) {
    for (const int32_t size : tensor->shape) largest = std::max(largest, size);
  }
  for (auto& instruction : c->program.instructions) {
    visit_fields(instruction->op, [&](auto& field) {
      if constexpr (std::is_same_v<std::decay_t<decltype(field)>, int32_t>) {
        if (field > largest) field = largest;  // padding, strides
      } else if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Shape>) {
        const auto half = static_cast<size_t>(largest) / 2;
        if (field.size() == static_cast<size_t>(largest)) field.resize(half);  // windows
      }
    });
  }
  resize_all(c, largest, std::max(largest / 2, 1));
}

void append(Case* c, const Case& other, Random* random) {
  const size_t own = c->program.tensors.size();
  const size_t instructions = c->program.instructions.size();
  const auto moved = [&](uint32_t index) { return static_cast<uint32_t>(index + own); };
  for (size_t i = 0; i < other.program.tensors.size(); ++i) {
    const int32_t base = other.bases[i];
    c->add(other.tensor(i), other.constants[i],
           base == kNoBase ? kNoBase : base + static_cast<int32_t>(own));
  }
  for (const auto& instruction : other.program.instructions) {
    auto copy = std::make_unique<schema::InstructionT>(*instruction);
    for (uint32_t& input : copy->inputs) input = moved(input);
    copy->output = moved(copy->output);
    if (schema::ConcatT* concat = copy->op.AsConcat()) {
      for (int32_t& table : concat->tables) {
        if (table != -1) table = static_cast<int32_t>(moved(static_cast<uint32_t>(table)));
      }
    }
    c->program.instructions.push_back(std::move(copy));
  }
  for (const auto& list : {std::make_pair(&c->program.inputs, &other.program.inputs),
                           std::make_pair(&c->program.outputs, &other.program.outputs)}) {
    for (const auto& argument : *list.second) {
      list.first->push_back(std::make_unique<schema::ArgumentT>(*argument));
      list.first->back()->tensor = moved(argument->tensor);
    }
  }
  if (random->one_in(4)) return;
  auto& joint = *c->program.instructions[instructions];
  if (!joint.inputs.empty()) {
    joint.inputs[0] = c->program.instructions[random->below(instructions)]->output;
  }
}

void damage(schema::ProgramT* program, Random* random) {
  const Damage any{*random};
  auto& tensor = *program->tensors[random->below(program->tensors.size())];
  auto& instruction = *program->instructions[random->below(program->instructions.size())];
  auto& arguments = random->one_in(2) ? program->inputs : program->outputs;
  switch (random->below(14)) {
    case 0:
      return any(tensor.dtype);
    case 1:
      return any(tensor.storage);
    case 2:
      return any(tensor.offset);
    case 3:
      return any(tensor.shape);
    case 4:
      return any(instruction.inputs);
    case 5:
      return any(instruction.output);
    case 6:
      return any(program->arena_size);
    case 7:
      if (arguments.empty()) return;
      return any(arguments[random->below(arguments.size())]->tensor);
    case 8:
      if (arguments.empty()) return;
      return any(arguments[random->below(arguments.size())]->sizes);
    case 9:
      if (arguments.empty()) return;
      return any(arguments[random->below(arguments.size())]->dim_order);
    case 10:
      if (!arguments.empty()) arguments.pop_back();
      return;
    case 11:
      tensor.name.assign(random->below(200), 'x');
      instruction.name.assign(random->below(200), 'y');
      return;
    default:
      return visit_one(&instruction.op, random, any);
  }
}

}  // namespace vpu::fuzz
