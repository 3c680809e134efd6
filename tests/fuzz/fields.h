// The fields of an instruction's table, one after another: f(name) for each.
#pragma once

#include <memory>

#include "vpu_generated.h"

namespace vpu::fuzz {

template <class F>
void visit_windows(std::unique_ptr<schema::WindowsT>& windows, F& f) {
  if (windows == nullptr) windows = std::make_unique<schema::WindowsT>();
  f(windows->begin);
  f(windows->end);
  f(windows->step);
}

template <class Table, class F>
void visit_clamp(Table& table, F& f) {
  f(table.out_min);
  f(table.out_max);
}

// f takes an int32_t&, an int8_t&, a float& or a std::vector<int32_t>&.
template <class F>
void visit_fields(schema::OpUnion& op, F f) {
  if (op.value == nullptr) return;
  switch (op.type) {
    case schema::Op_NONE:
    case schema::Op_Lookup:
      return;
    case schema::Op_Quantize:
      f(op.AsQuantize()->perm);
      return f(op.AsQuantize()->inv_scale);
    case schema::Op_Dequantize:
      f(op.AsDequantize()->perm);
      return f(op.AsDequantize()->scale);
    case schema::Op_Transpose:
      return f(op.AsTranspose()->perm);
    case schema::Op_Conv2d: {
      schema::Conv2dT& conv = *op.AsConv2d();
      for (int32_t* field : {&conv.stride_h, &conv.stride_w, &conv.pad_top, &conv.pad_left,
                             &conv.dilation_h, &conv.dilation_w, &conv.groups}) {
        f(*field);
      }
      f(conv.residual_multiplier);
      return visit_clamp(conv, f);
    }
    case schema::Op_Linear:
      f(op.AsLinear()->residual_multiplier);
      return visit_clamp(*op.AsLinear(), f);
    case schema::Op_MatMul:
      f(op.AsMatMul()->multiplier);
      return visit_clamp(*op.AsMatMul(), f);
    case schema::Op_Add:
      f(op.AsAdd()->a_multiplier);
      f(op.AsAdd()->b_multiplier);
      return visit_clamp(*op.AsAdd(), f);
    case schema::Op_Mul:
      f(op.AsMul()->multiplier);
      return visit_clamp(*op.AsMul(), f);
    case schema::Op_MaxPool2d:
      visit_windows(op.AsMaxPool2d()->rows, f);
      return visit_windows(op.AsMaxPool2d()->columns, f);
    case schema::Op_AvgPool2d:
      visit_windows(op.AsAvgPool2d()->rows, f);
      visit_windows(op.AsAvgPool2d()->columns, f);
      f(op.AsAvgPool2d()->row_divisor);
      f(op.AsAvgPool2d()->column_divisor);
      f(op.AsAvgPool2d()->multiplier);
      return visit_clamp(*op.AsAvgPool2d(), f);
    case schema::Op_Mean:
      f(op.AsMean()->axes);
      f(op.AsMean()->multiplier);
      return visit_clamp(*op.AsMean(), f);
    case schema::Op_Concat:
      f(op.AsConcat()->axis);
      return f(op.AsConcat()->tables);
    case schema::Op_Slice:
      f(op.AsSlice()->begin);
      return f(op.AsSlice()->step);
    case schema::Op_Pad:
      f(op.AsPad()->before);
      return f(op.AsPad()->value);
    case schema::Op_Softmax:
      f(op.AsSoftmax()->axis);
      return f(op.AsSoftmax()->multiplier);
    case schema::Op_BatchNorm:
      f(op.AsBatchNorm()->axis);
      return visit_clamp(*op.AsBatchNorm(), f);
  }
}

}  // namespace vpu::fuzz
