#include "settle.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace vpu::fuzz {
namespace {

constexpr size_t kTableSize = 256;
constexpr size_t kMostRank = 8;

bool is_permutation(const Shape& order, size_t rank) {
  Shape sorted = order;
  std::sort(sorted.begin(), sorted.end());
  Shape expected(rank);
  std::iota(expected.begin(), expected.end(), 0);
  return sorted == expected;
}

// Sizes of which no sum or product here overflows.
void bound(Shape* shape) {
  constexpr int64_t kMostElements = 1 << 26;
  if (shape->size() > kMostRank) shape->resize(kMostRank);
  int64_t elements = 1;
  for (int32_t& size : *shape) {
    size = static_cast<int32_t>(std::clamp<int64_t>(size, 1, kMostElements / elements));
    elements *= size;
  }
}

class Settler {
 public:
  Settler(Case* c, Random* random) : c_(*c), random_(*random) {}

  void run() {
    for (auto& tensor : c_.program.tensors) bound(&tensor->shape);
    defined_.assign(c_.program.tensors.size(), false);
    fixed_ = defined_;
    for (auto& instruction : c_.program.instructions) {
      define_operands(*instruction);
      choose_output(*instruction);
      step(*instruction);
      for (const uint32_t input : instruction->inputs) fix(input);
      defined_[instruction->output] = true;
    }
    settle_arguments(schema::Storage_Input, &c_.program.inputs);
    settle_arguments(schema::Storage_Output, &c_.program.outputs);
    drop_unused();
  }

 private:
  schema::TensorT& tensor(size_t index) { return c_.tensor(index); }
  Shape& shape(size_t index) { return c_.tensor(index).shape; }
  bool is_constant(size_t index) { return tensor(index).storage == schema::Storage_Constant; }

  size_t add(const schema::TensorT& tensor, Bytes constant = {}, int32_t base = kNoBase) {
    defined_.push_back(base != kNoBase || tensor.storage == schema::Storage_Arena);
    fixed_.push_back(false);
    return c_.add(tensor, std::move(constant), base);
  }

  // Somebody relies on its shape from now on.
  void fix(size_t index) { fixed_[index] = fixed_[c_.root(index)] = true; }

  // ---- What an instruction reads and writes.

  void define_operands(schema::InstructionT& instruction) {
    if (instruction.inputs.size() > 16) instruction.inputs.resize(16);
    for (uint32_t& input : instruction.inputs) {
      input %= static_cast<uint32_t>(c_.program.tensors.size());
      const size_t root = c_.root(input);
      if (root != input) fit_view(input, root);
      const schema::Storage storage = tensor(root).storage;
      const bool given = storage == schema::Storage_Constant || storage == schema::Storage_Input;
      if (!given && !defined_[root]) {
        schema::TensorT fresh = tensor(input);
        fresh.storage = schema::Storage_Input;
        input = static_cast<uint32_t>(add(fresh));
      }
    }
  }

  void choose_output(schema::InstructionT& instruction) {
    instruction.output %= static_cast<uint32_t>(c_.program.tensors.size());
    const size_t index = instruction.output;
    const bool is_operand = std::find(instruction.inputs.begin(), instruction.inputs.end(),
                                      instruction.output) != instruction.inputs.end();
    const schema::Storage storage = tensor(index).storage;
    const bool writable = storage == schema::Storage_Arena || storage == schema::Storage_Output;
    if (writable && !is_operand && !defined_[index] && c_.root(index) == index) return;
    schema::TensorT fresh = tensor(index);
    fresh.storage = schema::Storage_Arena;
    instruction.output = static_cast<uint32_t>(add(fresh));
  }

  // ---- Shapes.

  // A view has as many elements as what it is a view of.
  void fit_view(size_t view, size_t root) {
    tensor(view).dtype = tensor(root).dtype;
    const auto wanted = static_cast<int64_t>(elements_of(shape(root)));
    if (static_cast<int64_t>(elements_of(shape(view))) == wanted) return;
    int64_t rest = wanted;
    for (size_t d = 0; d < shape(view).size(); ++d) {
      int32_t& size = shape(view)[d];
      if (d + 1 == shape(view).size()) size = static_cast<int32_t>(rest);
      if (rest % size != 0) size = 1;
      rest /= size;
    }
    if (rest != 1) shape(view) = shape(root);
  }

  // Whether its shape may be another than it has.
  bool is_free(size_t index) {
    return c_.root(index) == index && !defined_[index] && !fixed_[index] &&
           (is_constant(index) || tensor(index).storage == schema::Storage_Input);
  }

  bool require(size_t index, const Shape& wanted) {
    if (shape(index) == wanted) return true;
    if (!is_free(index)) return false;
    shape(index) = wanted;
    return true;
  }

  // The operand with a shape of that rank: itself, or a view of it.
  void require_rank(uint32_t& operand, size_t rank) {
    Shape wanted = shape(operand);
    while (wanted.size() > rank && rank > 0) {
      const int32_t outermost = wanted.front();
      wanted.erase(wanted.begin());
      wanted.front() *= outermost;
    }
    while (wanted.size() < rank) wanted.insert(wanted.begin(), 1);
    if (wanted == shape(operand) || rank == 0) return;
    schema::TensorT view = tensor(operand);
    view.shape = wanted;
    const size_t root = c_.root(operand);
    operand = static_cast<uint32_t>(is_constant(root) ? add(view, c_.constants[root])
                                                      : add(view, {}, static_cast<int32_t>(root)));
  }

  // As many operands as the instruction takes.
  void count(schema::InstructionT& i, size_t least, size_t most) {
    while (i.inputs.size() < least) {
      schema::TensorT fresh;
      fresh.storage = schema::Storage_Constant;
      fresh.shape = {1};
      i.inputs.push_back(static_cast<uint32_t>(add(fresh)));
    }
    if (i.inputs.size() > most) i.inputs.resize(most);
  }

  void output(schema::InstructionT& i, Shape wanted, schema::DType dtype = schema::DType_Int8) {
    bound(&wanted);
    shape(i.output) = std::move(wanted);
    tensor(i.output).dtype = dtype;
  }

  // ---- Constants, which fill_constants gives their bytes.

  // A constant operand; a fresh one if another instruction reads it as something else.
  void constant(uint32_t& operand, schema::DType dtype, const Shape& wanted) {
    const bool fits = tensor(operand).dtype == dtype && shape(operand) == wanted;
    if (!is_constant(operand) || c_.root(operand) != operand || (fixed_[operand] && !fits)) {
      schema::TensorT fresh;
      fresh.storage = schema::Storage_Constant;
      operand = static_cast<uint32_t>(add(fresh));
    }
    tensor(operand).dtype = dtype;
    shape(operand) = wanted;
    fix(operand);
  }

  void multiplier(float& value) {
    if (!std::isfinite(value) || std::fabs(value) > 1e18f) value = 0.01f;
  }

  template <class Table>
  void clamp(Table& table) {
    if (table.out_min > table.out_max) std::swap(table.out_min, table.out_max);
  }

  // ---- Instructions.

  void step(schema::InstructionT& i) {
    schema::OpUnion& op = i.op;
    if (op.value == nullptr) return;
    switch (op.type) {
      case schema::Op_NONE:
        return;
      case schema::Op_Quantize:
        multiplier(op.AsQuantize()->inv_scale);
        return permute(i, op.AsQuantize()->perm, schema::DType_Float32, schema::DType_Int8);
      case schema::Op_Dequantize:
        multiplier(op.AsDequantize()->scale);
        return permute(i, op.AsDequantize()->perm, schema::DType_Int8, schema::DType_Float32);
      case schema::Op_Transpose:
        return permute(i, op.AsTranspose()->perm, schema::DType_Int8, schema::DType_Int8);
      case schema::Op_Conv2d:
        return convolve(i, *op.AsConv2d());
      case schema::Op_Linear:
        return linear(i, *op.AsLinear());
      case schema::Op_MatMul:
        return mat_mul(i, *op.AsMatMul());
      case schema::Op_Add:
        multiplier(op.AsAdd()->a_multiplier);
        multiplier(op.AsAdd()->b_multiplier);
        clamp(*op.AsAdd());
        return binary(i);
      case schema::Op_Mul:
        multiplier(op.AsMul()->multiplier);
        clamp(*op.AsMul());
        return binary(i);
      case schema::Op_Lookup:
        count(i, 2, 2);
        int8(i);
        fix(i.inputs[0]);
        if (!require(i.inputs[1], {kTableSize}))
          constant(i.inputs[1], schema::DType_Int8, {kTableSize});
        return output(i, shape(i.inputs[0]));
      case schema::Op_MaxPool2d:
        return pool(i, op.AsMaxPool2d()->rows, op.AsMaxPool2d()->columns);
      case schema::Op_AvgPool2d:
        return average(i, *op.AsAvgPool2d());
      case schema::Op_Mean:
        return mean(i, *op.AsMean());
      case schema::Op_Concat:
        return concat(i, *op.AsConcat());
      case schema::Op_Slice:
        return slice(i, *op.AsSlice());
      case schema::Op_Pad:
        return pad(i, *op.AsPad());
      case schema::Op_Softmax:
        return softmax(i, *op.AsSoftmax());
      case schema::Op_BatchNorm:
        return batch_norm(i, *op.AsBatchNorm());
    }
  }

  // What is float is quantized elsewhere; another operand takes its place.
  void int8(schema::InstructionT& i, size_t first = 0, size_t last = SIZE_MAX) {
    for (size_t k = first; k < std::min(i.inputs.size(), last); ++k) {
      operand_of(i.inputs[k], schema::DType_Int8);
    }
  }

  void operand_of(uint32_t& operand, schema::DType dtype) {
    if (tensor(operand).dtype == dtype) return;
    schema::TensorT fresh = tensor(operand);
    fresh.dtype = dtype;
    if (!is_constant(operand)) fresh.storage = schema::Storage_Input;
    operand = static_cast<uint32_t>(add(fresh));
  }

  void permute(schema::InstructionT& i, Shape& perm, schema::DType from, schema::DType to) {
    count(i, 1, 1);
    operand_of(i.inputs[0], from);
    const Shape& x = shape(i.inputs[0]);
    if (!is_permutation(perm, x.size())) {
      perm.resize(x.size());
      std::iota(perm.begin(), perm.end(), 0);
      for (size_t d = perm.size(); d > 1; --d) std::swap(perm[d - 1], perm[random_.below(d)]);
    }
    Shape y;
    for (const int32_t d : perm) y.push_back(x[static_cast<size_t>(d)]);
    output(i, y, to);
  }

  // Weight, bias and multiplier for that many channels, no sum of which overflows; a residual of
  // the output's shape or none.
  template <class Table>
  void weighted(schema::InstructionT& i, Table& table, const Shape& weight, const Shape& y) {
    fix(i.inputs[0]);
    constant(i.inputs[1], schema::DType_Int8, weight);
    constant(i.inputs[2], schema::DType_Int32, {weight[0]});
    constant(i.inputs[3], schema::DType_Float32, {weight[0]});
    multiplier(table.residual_multiplier);
    clamp(table);
    output(i, y);
    if (i.inputs.size() == 5 &&
        (tensor(i.inputs[4]).dtype != schema::DType_Int8 || !require(i.inputs[4], y))) {
      i.inputs.pop_back();
    }
  }

  void convolve(schema::InstructionT& i, schema::Conv2dT& conv) {
    count(i, 4, 5);
    int8(i, 0, 1);
    require_rank(i.inputs[0], 4);
    const Shape x = shape(i.inputs[0]);
    Shape weight = shape(i.inputs[1]);
    if (weight.size() != 4) weight = {random_.between(1, 40), 3, 3, x[3]};
    for (int32_t* field :
         {&conv.stride_h, &conv.stride_w, &conv.dilation_h, &conv.dilation_w, &conv.groups}) {
      *field = std::max(*field, 1);
    }
    conv.pad_top = std::max(conv.pad_top, 0);
    conv.pad_left = std::max(conv.pad_left, 0);
    if (weight[3] == 1 && conv.groups > 1) {
      const int32_t per_group = std::max(weight[0] / conv.groups, 1);
      conv.groups = x[3];
      weight[0] = conv.groups * per_group;
    }
    if (x[3] % conv.groups != 0) conv.groups = 1;
    weight[0] = (weight[0] + conv.groups - 1) / conv.groups * conv.groups;
    weight[3] = x[3] / conv.groups;
    Shape y = shape(i.output);
    if (y.size() != 4 || random_.one_in(4)) {
      y = {1, extent(x[1], weight[1], conv.stride_h, conv.pad_top, conv.dilation_h),
           extent(x[2], weight[2], conv.stride_w, conv.pad_left, conv.dilation_w), 1};
    }
    y[0] = x[0];
    y[3] = weight[0];
    weighted(i, conv, weight, y);
  }

  static int32_t extent(int32_t size, int32_t taps, int32_t stride, int32_t pad, int32_t dilation) {
    const int64_t room = size + int64_t{2} * pad - int64_t{taps - 1} * dilation - 1;
    return static_cast<int32_t>(std::clamp<int64_t>(room / stride + 1, 1, 1 << 20));
  }

  void linear(schema::InstructionT& i, schema::LinearT& table) {
    count(i, 4, 5);
    int8(i, 0, 1);
    if (shape(i.inputs[0]).empty()) require_rank(i.inputs[0], 1);
    Shape y = shape(i.inputs[0]);
    const Shape& weight = shape(i.inputs[1]);
    const Shape fitted = {weight.empty() ? 1 : weight[0], y.back()};
    y.back() = fitted[0];
    weighted(i, table, fitted, y);
  }

  void mat_mul(schema::InstructionT& i, schema::MatMulT& table) {
    count(i, 2, 2);
    int8(i);
    const size_t rank = std::max<size_t>({2, shape(i.inputs[0]).size(), shape(i.inputs[1]).size()});
    for (uint32_t& input : i.inputs) require_rank(input, rank);
    fix(i.inputs[0]);
    const Shape a = shape(i.inputs[0]);
    Shape b = shape(i.inputs[1]);
    b[rank - 2] = a[rank - 1];
    Shape y = a;
    y[rank - 1] = b[rank - 1];
    for (size_t d = 0; d + 2 < rank; ++d) {
      if (a[d] != 1 && b[d] != 1) b[d] = a[d];
      y[d] = std::max(a[d], b[d]);
    }
    if (!require(i.inputs[1], b)) {
      schema::TensorT fresh;
      fresh.storage = schema::Storage_Input;
      fresh.shape = b;
      i.inputs[1] = static_cast<uint32_t>(add(fresh));
    }
    multiplier(table.multiplier);
    clamp(table);
    output(i, y);
  }

  void binary(schema::InstructionT& i) {
    count(i, 2, 2);
    int8(i);
    const size_t rank = std::max(shape(i.inputs[0]).size(), shape(i.inputs[1]).size());
    for (uint32_t& input : i.inputs) require_rank(input, rank);
    Shape a = shape(i.inputs[0]);
    Shape b = shape(i.inputs[1]);
    for (size_t d = 0; d < rank; ++d) {
      if (a[d] == b[d] || a[d] == 1 || b[d] == 1) continue;
      (is_free(i.inputs[0]) ? a[d] : b[d]) = is_free(i.inputs[0]) ? b[d] : a[d];
    }
    if (!require(i.inputs[0], a) || !require(i.inputs[1], b)) {
      i.inputs[1] = i.inputs[0];
      b = a = shape(i.inputs[0]);
    }
    Shape y;
    for (size_t d = 0; d < rank; ++d) y.push_back(std::max(a[d], b[d]));
    output(i, y);
  }

  void windows(std::unique_ptr<schema::WindowsT>& windows, int32_t size) {
    if (windows == nullptr) windows = std::make_unique<schema::WindowsT>();
    windows->step = std::max(windows->step, 1);
    if (windows->begin.empty()) windows->begin.push_back(0);
    windows->end.resize(windows->begin.size(), size);
    for (size_t i = 0; i < windows->begin.size(); ++i) {
      windows->begin[i] = std::clamp(windows->begin[i], 0, size - 1);
      windows->end[i] = std::clamp(windows->end[i], windows->begin[i] + 1, size);
    }
  }

  void pool(schema::InstructionT& i, std::unique_ptr<schema::WindowsT>& rows,
            std::unique_ptr<schema::WindowsT>& columns) {
    count(i, 1, 1);
    int8(i);
    require_rank(i.inputs[0], 4);
    const Shape& x = shape(i.inputs[0]);
    windows(rows, x[1]);
    windows(columns, x[2]);
    output(i, {x[0], static_cast<int32_t>(rows->begin.size()),
               static_cast<int32_t>(columns->begin.size()), x[3]});
  }

  void average(schema::InstructionT& i, schema::AvgPool2dT& table) {
    pool(i, table.rows, table.columns);
    table.row_divisor.resize(table.rows->begin.size(), 1);
    table.column_divisor.resize(table.columns->begin.size(), 1);
    for (int32_t& divisor : table.row_divisor) divisor = std::max(divisor, 1);
    for (int32_t& divisor : table.column_divisor) divisor = std::max(divisor, 1);
    multiplier(table.multiplier);
    clamp(table);
  }

  void mean(schema::InstructionT& i, schema::MeanT& table) {
    count(i, 1, 1);
    int8(i);
    const Shape& x = shape(i.inputs[0]);
    Shape axes, with_ones, without;
    for (size_t d = 0; d < x.size(); ++d) {
      const auto axis = static_cast<int32_t>(d);
      const bool reduced = std::count(table.axes.begin(), table.axes.end(), axis) != 0;
      if (reduced) axes.push_back(axis);
      if (!reduced) without.push_back(x[d]);
      with_ones.push_back(reduced ? 1 : x[d]);
    }
    table.axes = axes;
    multiplier(table.multiplier);
    clamp(table);
    output(i, shape(i.output).size() == without.size() ? without : with_ones);
  }

  int32_t axis(int32_t axis, uint32_t& operand) {
    if (shape(operand).empty()) require_rank(operand, 1);
    const auto rank = static_cast<int32_t>(shape(operand).size());
    return axis >= 0 && axis < rank ? axis : random_.between(0, rank - 1);
  }

  void concat(schema::InstructionT& i, schema::ConcatT& table) {
    count(i, 1, 16);
    int8(i);
    table.axis = axis(table.axis, i.inputs[0]);
    const auto along = static_cast<size_t>(table.axis);
    Shape y = shape(i.inputs[0]);
    table.tables.resize(i.inputs.size(), -1);
    for (size_t k = 1; k < i.inputs.size(); ++k) {
      require_rank(i.inputs[k], y.size());
      Shape part = y;
      part[along] = shape(i.inputs[k])[along];
      fix(i.inputs[k - 1]);
      if (!require(i.inputs[k], part)) i.inputs[k] = i.inputs[0];
    }
    y[along] = 0;
    for (const uint32_t input : i.inputs) y[along] += shape(input)[along];
    for (int32_t& index : table.tables) {
      const auto tensors = static_cast<int32_t>(c_.program.tensors.size());
      if (index < 0 || index >= tensors || !is_constant(static_cast<size_t>(index))) index = -1;
      if (index == -1) continue;
      auto operand = static_cast<uint32_t>(index);
      constant(operand, schema::DType_Int8, {kTableSize});
      index = static_cast<int32_t>(operand);
    }
    output(i, y);
  }

  void slice(schema::InstructionT& i, schema::SliceT& table) {
    count(i, 1, 1);
    int8(i);
    const Shape& x = shape(i.inputs[0]);
    table.begin.resize(x.size(), 0);
    table.step.resize(x.size(), 1);
    Shape y = shape(i.output);
    y.resize(x.size(), 1 << 30);
    for (size_t d = 0; d < x.size(); ++d) {
      int32_t& begin = table.begin[d];
      int32_t& step = table.step[d];
      begin = std::clamp(begin, 0, x[d] - 1);
      step = std::clamp(step, -x[d], x[d]);
      if (step == 0) {
        y[d] = std::min(y[d], 64);
      } else {
        const int32_t room = step > 0 ? x[d] - 1 - begin : begin;
        y[d] = std::min(y[d], room / std::abs(step) + 1);
      }
    }
    output(i, y);
  }

  void pad(schema::InstructionT& i, schema::PadT& table) {
    count(i, 1, 1);
    int8(i);
    const Shape& x = shape(i.inputs[0]);
    table.before.resize(x.size(), 0);
    Shape y = shape(i.output);
    if (y.size() != x.size() || random_.one_in(4)) {
      y.resize(x.size());
      for (size_t d = 0; d < x.size(); ++d) {
        const int64_t size = int64_t{x[d]} + table.before[d] + random_.between(-2, 4);
        y[d] = static_cast<int32_t>(std::clamp<int64_t>(size, 1, 1 << 20));
      }
    }
    output(i, y);
  }

  void softmax(schema::InstructionT& i, schema::SoftmaxT& table) {
    count(i, 2, 2);
    int8(i, 0, 1);
    table.axis = axis(table.axis, i.inputs[0]);
    multiplier(table.multiplier);
    fix(i.inputs[0]);
    constant(i.inputs[1], schema::DType_Int32, {kTableSize});
    output(i, shape(i.inputs[0]));
  }

  void batch_norm(schema::InstructionT& i, schema::BatchNormT& table) {
    count(i, 3, 3);
    int8(i, 0, 1);
    table.axis = axis(table.axis, i.inputs[0]);
    const int32_t channels = shape(i.inputs[0])[static_cast<size_t>(table.axis)];
    fix(i.inputs[0]);
    for (size_t k = 1; k < 3; ++k) constant(i.inputs[k], schema::DType_Float32, {channels});
    clamp(table);
    output(i, shape(i.inputs[0]));
  }

  // ---- Arguments.

  using Arguments = std::vector<std::unique_ptr<schema::ArgumentT>>;

  // Every root of that storage once, those that there were first. An output that nothing writes is
  // none.
  void settle_arguments(schema::Storage storage, Arguments* arguments) {
    std::vector<uint32_t> order;
    std::vector<bool> listed(c_.program.tensors.size(), false);
    Arguments settled;
    const auto list = [&](std::unique_ptr<schema::ArgumentT> argument) {
      const uint32_t index = argument->tensor;
      if (index >= listed.size() || listed[index] || tensor(index).storage != storage ||
          c_.root(index) != index) {
        return;
      }
      listed[index] = true;
      tensor(index).offset = settled.size();
      fit(argument.get());
      settled.push_back(std::move(argument));
    };
    for (size_t t = 0; t < c_.program.tensors.size(); ++t) {
      if (storage == schema::Storage_Output && tensor(t).storage == storage && !defined_[t]) {
        tensor(t).storage = schema::Storage_Arena;
      }
    }
    for (auto& argument : *arguments) list(std::move(argument));
    for (uint32_t t = 0; t < c_.program.tensors.size(); ++t) {
      if (listed[t] || tensor(t).storage != storage) continue;
      auto argument = std::make_unique<schema::ArgumentT>();
      argument->tensor = t;
      list(std::move(argument));
    }
    *arguments = std::move(settled);
  }

  void fit(schema::ArgumentT* argument) {
    const Shape& physical = shape(argument->tensor);
    Shape order(argument->dim_order.begin(), argument->dim_order.end());
    if (!is_permutation(order, physical.size())) {
      order.resize(physical.size());
      std::iota(order.begin(), order.end(), 0);
    }
    argument->dim_order.assign(order.begin(), order.end());
    argument->sizes.resize(physical.size());
    for (size_t d = 0; d < order.size(); ++d) {
      argument->sizes[static_cast<size_t>(order[d])] = physical[d];
    }
  }

  // f(index) for every index of a tensor.
  template <class F>
  void for_each_reference(F f) {
    for (auto& instruction : c_.program.instructions) {
      for (uint32_t& input : instruction->inputs) f(input);
      f(instruction->output);
      if (schema::ConcatT* concat = instruction->op.AsConcat()) {
        for (int32_t& table : concat->tables) {
          if (table != -1) f(table);
        }
      }
    }
    for (Arguments* arguments : {&c_.program.inputs, &c_.program.outputs}) {
      for (auto& argument : *arguments) f(argument->tensor);
    }
    for (int32_t& base : c_.bases) {
      if (base != kNoBase) f(base);
    }
  }

  void drop_unused() {
    std::vector<size_t> place(c_.program.tensors.size(), SIZE_MAX);
    for_each_reference([&](auto& index) { place[static_cast<size_t>(index)] = 0; });
    size_t kept = 0;
    for (size_t t = 0; t < place.size(); ++t) {
      if (place[t] == SIZE_MAX) continue;
      place[t] = kept;
      if (t != kept) {
        c_.program.tensors[kept] = std::move(c_.program.tensors[t]);
        c_.constants[kept] = std::move(c_.constants[t]);
        c_.bases[kept] = c_.bases[t];
      }
      ++kept;
    }
    c_.program.tensors.resize(kept);
    c_.constants.resize(kept);
    c_.bases.resize(kept);
    for_each_reference([&](auto& index) {
      index = static_cast<std::decay_t<decltype(index)>>(place[static_cast<size_t>(index)]);
    });
  }

  Case& c_;
  Random& random_;
  std::vector<bool> defined_;  // by an instruction before
  std::vector<bool> fixed_;
};

}  // namespace

void settle(Case* c, Random* random) { Settler(c, random).run(); }

}  // namespace vpu::fuzz
