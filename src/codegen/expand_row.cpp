// Ops over a row as kernel IR: reductions, softmax and the norms. Formulas as in ops/reduce and ops/nn.
#include <algorithm>
#include <cmath>

#include "codegen/expand.h"

namespace deepjit {

namespace {

using Ref = IrBuilder::Ref;

Ref op2(Expansion& e, Opcode op, Ref x, Ref y) { return e.b.binary(op, x, y); }
Ref sum(Expansion& e, Ref x) { return e.b.reduce(Opcode::SUM, x); }
Ref mean(Expansion& e, Ref x) { return op2(e, Opcode::DIV, sum(e, x), e.b.row_size(e.b.type(x))); }
Ref square(Expansion& e, Ref x) { return op2(e, Opcode::MUL, x, x); }
Ref c(Expansion& e, double value) { return e.b.constant(value, e.b.type(e.in())); }

Refusal only_first_output(const OpView& op) {
  for (size_t i = 1; i < op.outputs.size(); ++i) {
    if (op.outputs[i].dtype != DType::UNDEFINED) {
      return {Why::SEVERAL_OUTPUTS, op.op + " with more than one output is not generated"};
    }
  }
  return need_float(op);
}

int rank_of(const OpView& op) { return op.inputs[0].shape.rank(); }

std::vector<int> dims_from(int first, int rank) {
  std::vector<int> dims;
  for (int i = first; i < rank; ++i) dims.push_back(i);
  return dims;
}

// The axes of a reduction: the constant second input.
std::vector<int> reduce_axes(const OpView& op) {
  if (!op.has(1) || op.inputs[1].shape.count() == 0) {
    return op.attrs->get_int("noop_with_empty_axes", 0) != 0 ? std::vector<int>{} : dims_from(0, rank_of(op));
  }
  std::vector<int> axes;
  for (int64_t axis : op.constants[1]->to_i64()) axes.push_back(normalize_axis(axis, rank_of(op)));
  std::sort(axes.begin(), axes.end());
  return axes;
}

Refusal refuse_reduce(const OpView& op) {
  if (Refusal why = need_float(op); !why.empty()) return why;
  if (op.has(1) && op.constants[1] == nullptr) {
    return {Why::AXES_NOT_CONSTANT, "the axes of " + op.op + " are not constant"};
  }
  if (reduce_axes(op).empty()) return {Why::NOTHING_REDUCED, op.op + " reduces nothing"};
  return {};
}

std::vector<int> softmax_axes(const OpView& op) { return {normalize_axis(op.attrs->get_int("axis", -1), rank_of(op))}; }

Ref softmax(Expansion& e, bool logarithm) {
  const Ref shifted = op2(e, Opcode::SUB, e.in(), e.b.reduce(Opcode::MAXIMUM, e.in()));
  const Ref exps = e.b.unary(Opcode::EXP, shifted);
  if (logarithm) return op2(e, Opcode::SUB, shifted, e.b.unary(Opcode::LOG, sum(e, exps)));
  return op2(e, Opcode::MUL, exps, e.b.unary(Opcode::RECIPROCAL, sum(e, exps)));
}

std::vector<int> norm_axes(const OpView& op) {
  return dims_from(normalize_axis(op.attrs->get_int("axis", -1), rank_of(op)), rank_of(op));
}

// (x - mean) / sqrt(variance + epsilon) * scale + bias, in float for the 16-bit types.
Ref normalize(Expansion& e, bool centred) {
  const Ref x = centred ? op2(e, Opcode::SUB, e.in(), mean(e, e.in())) : e.in();
  const Ref variance = op2(e, Opcode::ADD, mean(e, square(e, x)), c(e, static_cast<double>(e.attr("epsilon", 1e-5f))));
  Ref y = op2(e, Opcode::MUL, x, e.b.unary(Opcode::RECIPROCAL, e.b.unary(Opcode::SQRT, variance)));
  if (e.has(1)) y = op2(e, Opcode::MUL, y, e.b.cast(e.in(1), e.b.type(y)));
  if (e.has(2)) y = op2(e, Opcode::ADD, y, e.b.cast(e.in(2), e.b.type(y)));
  return y;
}

std::vector<int> arg_axes(const OpView& op) { return {normalize_axis(op.attrs->get_int("axis", 0), rank_of(op))}; }

// The first place that holds the extreme. A NaN never beats a number before it: only one in the first place counts.
Ref arg_extreme(Expansion& e, Opcode extreme) {
  const Ref nowhere = e.b.constant(0x1p62, DType::INT64);
  const Ref place = e.row_index();
  const Ref x = e.in();
  if (!is_float(e.b.type(x))) {
    const Ref hit = op2(e, Opcode::EQ, x, e.b.reduce(extreme, x));
    return e.b.reduce(Opcode::MINIMUM, e.b.select(hit, place, nowhere));
  }
  const double least = extreme == Opcode::MAXIMUM ? -INFINITY : INFINITY;
  const Ref nan = e.b.unary(Opcode::IS_NAN, x);
  const Ref number = e.b.select(nan, c(e, least), x);
  const Ref best = op2(e, Opcode::EQ, number, e.b.reduce(extreme, number));
  const Ref hit = op2(e, Opcode::AND, best, e.b.unary(Opcode::NOT, nan));
  const Ref first_nan = op2(e, Opcode::AND, nan, op2(e, Opcode::EQ, place, e.b.constant(0, DType::INT64)));
  return e.b.reduce(Opcode::MINIMUM, e.b.select(op2(e, Opcode::OR, hit, first_nan), place, nowhere));
}

Refusal refuse_arg(const OpView& op) {
  if (op.attrs->get_int("select_last_index", 0) != 0) {
    return {Why::OP_NOT_GENERATED, op.op + " of the last index is not generated", "take the first index"};
  }
  if (op.inputs[0].shape[arg_axes(op)[0]] == 0) return {Why::NOTHING_REDUCED, op.op + " of nothing"};
  return {};
}

std::vector<int> spatial_axes(const OpView& op) { return dims_from(2, rank_of(op)); }

Refusal refuse_spatial(const OpView& op) {
  if (rank_of(op) < 3) return {Why::NOTHING_REDUCED, op.op + " without spatial dims is not generated"};
  return only_first_output(op);
}

int channel_dim(const OpView& op, size_t input) { return input == 0 ? 0 : std::min(1, rank_of(op) - 1); }

// The scale, bias and statistics may be of other types than the data.
Ref batch_norm(Expansion& e) {
  auto in = [&](size_t i) { return e.b.cast(e.in(i), e.b.type(e.in())); };
  const Ref deviation =
      e.b.unary(Opcode::SQRT, op2(e, Opcode::ADD, in(4), c(e, static_cast<double>(e.attr("epsilon", 1e-5f)))));
  const Ref scale = op2(e, Opcode::DIV, in(1), deviation);
  return op2(e, Opcode::ADD, op2(e, Opcode::MUL, op2(e, Opcode::SUB, e.in(), in(3)), scale), in(2));
}

}  // namespace

void add_row_rules(RuleTable& table) {
  auto reduction = [&](const char* op, Ref (*formula)(Expansion&)) {
    table[op] = {formula, reduce_axes, true, nullptr, refuse_reduce};
  };
  reduction("ReduceSum", [](Expansion& e) { return sum(e, e.in()); });
  reduction("ReduceMean", [](Expansion& e) { return mean(e, e.in()); });
  reduction("ReduceMax", [](Expansion& e) { return e.b.reduce(Opcode::MAXIMUM, e.in()); });
  reduction("ReduceMin", [](Expansion& e) { return e.b.reduce(Opcode::MINIMUM, e.in()); });
  reduction("ReduceProd", [](Expansion& e) { return e.b.reduce(Opcode::PRODUCT, e.in()); });
  reduction("ReduceSumSquare", [](Expansion& e) { return sum(e, square(e, e.in())); });
  reduction("ReduceL1", [](Expansion& e) { return sum(e, e.b.unary(Opcode::ABS, e.in())); });
  reduction("ReduceL2", [](Expansion& e) { return e.b.unary(Opcode::SQRT, sum(e, square(e, e.in()))); });
  table["GlobalAveragePool"] = {[](Expansion& e) { return mean(e, e.in()); }, spatial_axes, true, nullptr,
                                refuse_spatial};
  table["GlobalMaxPool"] = {[](Expansion& e) { return e.b.reduce(Opcode::MAXIMUM, e.in()); }, spatial_axes, true,
                            nullptr, refuse_spatial};

  table["ArgMax"] = {[](Expansion& e) { return arg_extreme(e, Opcode::MAXIMUM); }, arg_axes, true, nullptr, refuse_arg};
  table["ArgMin"] = {[](Expansion& e) { return arg_extreme(e, Opcode::MINIMUM); }, arg_axes, true, nullptr, refuse_arg};

  table["Softmax"] = {[](Expansion& e) { return softmax(e, false); }, softmax_axes, false, nullptr, need_float};
  table["LogSoftmax"] = {[](Expansion& e) { return softmax(e, true); }, softmax_axes, false, nullptr, need_float};
  table["LayerNormalization"] = {[](Expansion& e) { return normalize(e, true); }, norm_axes, false, nullptr,
                                 only_first_output};
  table["RMSNormalization"] = {[](Expansion& e) { return normalize(e, false); }, norm_axes, false, nullptr,
                               only_first_output};
  table["InstanceNormalization"] = {[](Expansion& e) { return normalize(e, true); }, spatial_axes, false, channel_dim,
                                    refuse_spatial};
  table["BatchNormalization"] = {batch_norm, nullptr, false, channel_dim, only_first_output};
}

}  // namespace deepjit
