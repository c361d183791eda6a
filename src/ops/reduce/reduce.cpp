// The Reduce family: shape rules and registration; reduce_tensor.cpp holds the loops.
#include "ops/reduce/reduce.h"

#include "ops/common.h"

namespace deepjit {

std::vector<bool> reduced_axes(const std::vector<int64_t>& axes, int rank, bool noop) {
  std::vector<bool> reduced(static_cast<size_t>(rank), axes.empty() && !noop);
  for (int64_t axis : axes) reduced[static_cast<size_t>(normalize_axis(axis, rank, "reduced axis"))] = true;
  return reduced;
}

namespace {

bool keeps_dims(const Attributes& attrs) { return attrs.get_int("keepdims", 1) != 0; }
bool is_noop(const Attributes& attrs) { return attrs.get_int("noop_with_empty_axes", 0) != 0; }

// The axes are computed at run time.
Shape shape_for_unknown_axes(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  if (!in.ranked()) return Shape();
  if (keeps_dims(ctx.attrs())) {
    Shape out = in;
    for (int i = 0; i < out.rank(); ++i) {
      if (!(out[i] == 1)) out[i] = ctx.fresh_dim();
    }
    return out;
  }
  const Shape& axes = ctx.shape(1);
  if (!axes.ranked() || axes.rank() != 1 || !axes[0].is_const()) return Shape();
  const int64_t count = axes[0].value();
  if (count == 0) return is_noop(ctx.attrs()) ? in : Shape(std::vector<Dim>{});
  return count <= in.rank() ? ctx.fresh_shape(in.rank() - static_cast<int>(count)) : Shape();
}

void propagate_reduced_values(InferContext& ctx, ReduceOp op, bool reduces) {
  const std::vector<Dim>* values = known_values(ctx, 0);
  if (values == nullptr) return;
  if (op != ReduceOp::SUM && op != ReduceOp::PROD && op != ReduceOp::MAX && op != ReduceOp::MIN) return;
  if (!reduces) return ctx.set_output_values(0, *values);
  if (values->empty() && (op == ReduceOp::MAX || op == ReduceOp::MIN)) return;
  Dim total = values->empty() ? Dim(op == ReduceOp::PROD ? 1 : 0) : values->front();
  for (size_t i = 1; i < values->size(); ++i) {
    const Dim& v = (*values)[i];
    if (op == ReduceOp::SUM) total = total + v;
    if (op == ReduceOp::PROD) total = total * v;
    if (op == ReduceOp::MAX) total = max(total, v);
    if (op == ReduceOp::MIN) total = min(total, v);
  }
  ctx.set_output_values(0, {total});
}

void infer_reduce(InferContext& ctx, ReduceOp op) {
  const bool is_extremum = op == ReduceOp::MAX || op == ReduceOp::MIN;
  expect_type(ctx, "Reduce", 0, is_numeric(ctx.dtype(0)) || (is_extremum && ctx.dtype(0) == DType::BOOL),
              "a numeric tensor");
  const auto axes = ctx.has_input(1) ? ctx.constant_ints(1) : std::vector<int64_t>();
  const Shape& in = ctx.shape(0);
  if (!axes) return ctx.set_output(0, ctx.dtype(0), shape_for_unknown_axes(ctx));
  if (!in.ranked()) {
    const bool all = axes->empty() && !keeps_dims(ctx.attrs()) && !is_noop(ctx.attrs());
    return ctx.set_output(0, ctx.dtype(0), all ? Shape(std::vector<Dim>{}) : Shape());
  }
  const std::vector<bool> reduced = reduced_axes(*axes, in.rank(), is_noop(ctx.attrs()));
  std::vector<Dim> out;
  for (int i = 0; i < in.rank(); ++i) {
    if (!reduced[static_cast<size_t>(i)]) {
      out.push_back(in[i]);
    } else if (keeps_dims(ctx.attrs())) {
      out.emplace_back(1);
    }
  }
  ctx.set_output(0, ctx.dtype(0), Shape(std::move(out)));
  if (in.rank() <= 1) propagate_reduced_values(ctx, op, in.rank() == 1 && reduced[0]);
}

void evaluate_reduce(EvalContext& ctx, ReduceOp op) {
  const TensorView& in = ctx.input(0);
  const std::vector<int64_t> axes = ctx.has_input(1) ? ctx.ints(1) : std::vector<int64_t>();
  const std::vector<bool> reduced = reduced_axes(axes, in.dims.rank(), is_noop(ctx.attrs()));
  Dims dims;
  for (int i = 0; i < in.dims.rank(); ++i) {
    if (!reduced[static_cast<size_t>(i)]) {
      dims.push_back(in.dims[i]);
    } else if (keeps_dims(ctx.attrs())) {
      dims.push_back(1);
    }
  }
  reduce_tensor(op, in, reduced, ctx.output(0, in.dtype, dims));
}

}  // namespace

void add_reduce_ops(OpRegistry& registry) {
  constexpr std::pair<const char*, ReduceOp> kOps[] = {
      {"ReduceSum", ReduceOp::SUM},
      {"ReduceMean", ReduceOp::MEAN},
      {"ReduceMax", ReduceOp::MAX},
      {"ReduceMin", ReduceOp::MIN},
      {"ReduceProd", ReduceOp::PROD},
      {"ReduceL1", ReduceOp::L1},
      {"ReduceL2", ReduceOp::L2},
      {"ReduceLogSum", ReduceOp::LOG_SUM},
      {"ReduceLogSumExp", ReduceOp::LOG_SUM_EXP},
      {"ReduceSumSquare", ReduceOp::SUM_SQUARE},
  };
  for (const auto& [name, op] : kOps) {
    registry.add({.name = name,
                  .max_inputs = 2,
                  .infer = [op = op](InferContext& ctx) { infer_reduce(ctx, op); },
                  .evaluate = [op = op](EvalContext& ctx) { evaluate_reduce(ctx, op); },
                  .shape_inputs = {1}});
  }
}

}  // namespace deepjit
