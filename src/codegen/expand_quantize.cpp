// QuantizeLinear and DequantizeLinear as kernel IR, with one scale or one for each place along an axis. Formulas as in
// ops/pointwise/quantize.cpp. A quantized value is the end of a kernel (RegionBuilder): which of two integers a number
// on the edge between them becomes, the last digit of what made it decides, so nothing is computed from it inside.
#include "codegen/expand.h"

namespace deepjit {

namespace {

using Ref = IrBuilder::Ref;

bool is_narrow_integer(DType t) {
  return t == DType::INT8 || t == DType::UINT8 || t == DType::INT16 || t == DType::UINT16;
}

Refusal refuse_scale(const OpView& op) {
  if (op.attrs->get_int("block_size", 0) != 0) {
    return {Why::OP_NOT_GENERATED, op.op + " by blocks is not generated", "use one scale for each place of an axis"};
  }
  if (!op.has(1)) return {Why::OP_NOT_GENERATED, op.op + " without a scale is not generated"};
  if (compute_type(op.inputs[1].dtype) != DType::FLOAT32)
    return refuse_type(op, " with a scale of ", op.inputs[1].dtype);
  if (op.inputs[1].shape.rank() > 1) {
    return {Why::OP_NOT_GENERATED, op.op + " by blocks is not generated", "use one scale for each place of an axis"};
  }
  return {};
}

Refusal refuse_quantize(const OpView& op) {
  if (compute_type(op.inputs[0].dtype) != DType::FLOAT32) return refuse_type(op, " on ", op.inputs[0].dtype);
  if (!is_narrow_integer(op.outputs[0].dtype)) return refuse_type(op, " to ", op.outputs[0].dtype);
  return refuse_scale(op);
}

Refusal refuse_dequantize(const OpView& op) {
  if (!is_narrow_integer(op.inputs[0].dtype)) return refuse_type(op, " on ", op.inputs[0].dtype);
  if (compute_type(op.outputs[0].dtype) != DType::FLOAT32) return refuse_type(op, " to ", op.outputs[0].dtype);
  return refuse_scale(op);
}

// One number is read at any place; a row of them lies along the axis.
int scale_dim(const OpView& op, size_t input) {
  const Shape& own = op.inputs[input].shape;
  if (input == 0 || own.rank() == 0 || own[0] == 1) return 0;
  return normalize_axis(op.attrs->get_int("axis", 1), op.inputs[0].shape.rank());
}

Ref quantize(Expansion& e) {
  const DType to = e.op.outputs[0].dtype;
  const double bits = to == DType::INT8 || to == DType::UINT8 ? 256 : 65536;
  const bool has_sign = is_signed_integer(to);
  auto number = [&](double value) { return e.b.constant(value, DType::FLOAT32); };
  Ref x = e.b.unary(Opcode::ROUND, e.b.binary(Opcode::DIV, e.in(0), e.in(1)));
  if (e.has(2)) x = e.b.binary(Opcode::ADD, x, e.b.cast(e.in(2), DType::FLOAT32));
  x = e.b.binary(Opcode::MAX, x, number(has_sign ? -bits / 2 : 0));
  x = e.b.binary(Opcode::MIN, x, number(has_sign ? bits / 2 - 1 : bits - 1));
  return e.b.cast(x, DType::INT32);  // NaN becomes 0
}

Ref dequantize(Expansion& e) {
  const Ref x = e.has(2) ? e.b.binary(Opcode::SUB, e.in(0), e.in(2)) : e.in(0);
  return e.b.binary(Opcode::MUL, e.b.cast(x, DType::FLOAT32), e.in(1));
}

}  // namespace

void add_quantize_rules(RuleTable& table) {
  table["QuantizeLinear"] = {quantize, nullptr, false, scale_dim, refuse_quantize};
  table["DequantizeLinear"] = {dequantize, nullptr, false, scale_dim, refuse_dequantize};
}

}  // namespace deepjit
