// Ops that leave the bytes as they are, and those that only read a shape.
#include <algorithm>

#include "ops/common.h"

namespace deepjit {

namespace {

// ---- Reshape --------------------------------------------------------------------------------------

[[noreturn]] void fail_reshape(const std::string& from, const std::string& to) {
  throw Error(Code::SHAPE_MISMATCH, "Reshape: cannot reshape " + from + " to " + to);
}

// What a shape value asks for: 0 without allowzero copies the input's dim at its own position.
struct Wanted {
  int minus_one = -1;        // position of the -1, if any
  std::vector<bool> copied;  // by output position
};

// The rules that hold for known values and for run-time values alike.
Wanted check_wanted(const std::vector<Dim>& wanted, const std::string& from, int input_rank, bool allowzero) {
  Wanted out;
  bool has_zero = false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Dim& d = wanted[i];
    has_zero = has_zero || d == 0;
    out.copied.push_back(d == 0 && !allowzero);
    if (out.copied.back() && input_rank >= 0 && static_cast<int>(i) >= input_rank) {
      fail_reshape(from, Shape(wanted).to_string() + ": it has a 0 at position " + std::to_string(i));
    }
    if (d.is_const() && d.value() < -1) fail_reshape(from, Shape(wanted).to_string());
    if (d == -1 && out.minus_one >= 0) fail_reshape(from, Shape(wanted).to_string() + ": it has more than one -1");
    if (d == -1) out.minus_one = static_cast<int>(i);
  }
  if (allowzero && has_zero && out.minus_one >= 0) {
    fail_reshape(from, Shape(wanted).to_string() + ": 0 and -1 do not go together with allowzero=1");
  }
  return out;
}

// The dim that makes the counts equal. Copied dims cancel, so that a batch of 0 keeps its other dims.
Dim solve_minus_one(InferContext& ctx, const Wanted& rule, const std::vector<Dim>& wanted) {
  const Shape& input = ctx.shape(0);
  if (!input.ranked()) return ctx.fresh_dim();
  Dim total(1);
  Dim others(1);
  for (int i = 0; i < input.rank(); ++i) {
    if (static_cast<size_t>(i) >= wanted.size() || !rule.copied[static_cast<size_t>(i)]) total = total * input[i];
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!rule.copied[i] && static_cast<int>(i) != rule.minus_one) others = others * wanted[i];
  }
  if (total.is_const() && others.is_const() && total.value() % others.value() != 0) {
    fail_reshape(input.to_string(), Shape(wanted).to_string());
  }
  if (std::optional<Dim> exact = Dim::exact_div(total, others)) return *exact;
  return known_nonnegative(others) ? floordiv(total, others) : ctx.fresh_dim();
}

Shape reshaped(InferContext& ctx, const std::vector<Dim>& wanted, bool allowzero) {
  const Shape& input = ctx.shape(0);
  const std::string from = input.to_string();
  const Wanted rule = check_wanted(wanted, from, input.ranked() ? input.rank() : -1, allowzero);
  std::vector<Dim> out = wanted;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (rule.copied[i]) out[i] = input.ranked() ? input[static_cast<int>(i)] : ctx.fresh_dim();
  }
  if (rule.minus_one >= 0) {
    out[static_cast<size_t>(rule.minus_one)] = solve_minus_one(ctx, rule, wanted);
  } else if (input.ranked()) {
    const Dim before = input.count();
    const Dim after = Shape(out).count();
    if (before.is_const() && after.is_const() && !(before == after)) fail_reshape(from, Shape(out).to_string());
  }
  return Shape(std::move(out));
}

void infer_reshape(InferContext& ctx) {
  expect_type(ctx, "Reshape", 1, ctx.dtype(1) == DType::INT64, "int64");
  const Shape& target = ctx.shape(1);
  if (target.ranked() && target.rank() != 1) {
    throw Error(Code::SHAPE_MISMATCH, "Reshape: the shape must be a vector, got " + target.to_string());
  }
  const std::vector<Dim>* wanted = ctx.input_values(1);
  if (wanted == nullptr) {
    const bool rank_known = target.ranked() && target[0].is_const();
    ctx.set_output(0, ctx.dtype(0), rank_known ? ctx.fresh_shape(static_cast<int>(target[0].value())) : Shape());
    return;
  }
  Shape shape = reshaped(ctx, *wanted, ctx.attrs().get_int("allowzero", 0) != 0);
  const bool values_fit = shape.rank() <= 1;
  ctx.set_output(0, ctx.dtype(0), std::move(shape));
  if (values_fit) forward_values(ctx, 0);
}

Dims reshape_dims(const EvalContext& ctx) {
  const Dims& input = ctx.dims(0);
  const std::vector<int64_t> values = ctx.ints(1);
  const std::vector<Dim> wanted(values.begin(), values.end());
  const Wanted rule = check_wanted(wanted, input.to_string(), input.rank(), ctx.attrs().get_int("allowzero", 0) != 0);
  Dims rest;    // the input's dims that are not copied
  Dims others;  // the output's dims that are neither copied nor -1
  Dims out;
  for (int i = 0; i < input.rank(); ++i) {
    if (static_cast<size_t>(i) >= values.size() || !rule.copied[static_cast<size_t>(i)]) rest.push_back(input[i]);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    out.push_back(rule.copied[i] ? input[static_cast<int>(i)] : values[i]);
    if (!rule.copied[i] && static_cast<int>(i) != rule.minus_one) others.push_back(values[i]);
  }
  if (rule.minus_one >= 0) {
    const bool solvable = others.count() != 0 && rest.count() % others.count() == 0;
    if (!solvable) fail_reshape(input.to_string(), Dims(values).to_string());
    out[rule.minus_one] = rest.count() / others.count();
  }
  if (out.count() != input.count()) fail_reshape(input.to_string(), Dims(values).to_string());
  return out;
}

void evaluate_reshape(EvalContext& ctx) { copy_elements(ctx.input(0), ctx.output(0, ctx.dtype(0), reshape_dims(ctx))); }

// ---- Squeeze, Unsqueeze ---------------------------------------------------------------------------

// Marks the positions that `axes` name in a shape of `rank`; throws for one named twice.
std::vector<bool> mark_axes(const std::vector<int64_t>& axes, int rank, std::string_view op) {
  std::vector<bool> marked(static_cast<size_t>(rank), false);
  for (int64_t axis : axes) {
    const auto at = static_cast<size_t>(normalize_axis(axis, rank, std::string(op) + " axis"));
    if (marked[at]) {
      throw Error(Code::ATTRIBUTE, std::string(op) + ": axis " + std::to_string(axis) + " is named twice");
    }
    marked[at] = true;
  }
  return marked;
}

// How many axes input 1 names, where its shape tells; for axes whose values are not known yet.
std::optional<int64_t> count_of_axes(const InferContext& ctx) {
  if (!ctx.has_input(1) || !ctx.shape(1).ranked()) return std::nullopt;
  const Shape& axes = ctx.shape(1);
  if (axes.rank() == 0) return 1;
  if (axes.rank() > 1) throw Error(Code::SHAPE_MISMATCH, "axes have shape " + axes.to_string() + ", expected rank 1");
  return axes[0].as_const();
}

void infer_squeeze(InferContext& ctx) {
  const Shape& input = ctx.shape(0);
  const auto axes = ctx.constant_ints(1);
  if (!input.ranked() || (ctx.has_input(1) && !axes)) {
    const auto dropped = count_of_axes(ctx);
    const bool rank_known = input.ranked() && dropped && *dropped <= input.rank();
    ctx.set_output(0, ctx.dtype(0), rank_known ? ctx.fresh_shape(input.rank() - static_cast<int>(*dropped)) : Shape());
    return;
  }
  std::vector<bool> drop(static_cast<size_t>(input.rank()), false);
  if (axes) drop = mark_axes(*axes, input.rank(), "Squeeze");
  std::vector<Dim> out;
  for (int i = 0; i < input.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (!axes && !input[i].is_const()) {  // may or may not be 1
      ctx.set_output(0, ctx.dtype(0), Shape());
      return;
    }
    if (axes && drop[at] && input[i].is_const() && input[i].value() != 1) {
      throw Error(Code::SHAPE_MISMATCH, "Squeeze: dim " + std::to_string(i) + " of " + input.to_string() + " is not 1");
    }
    if (!axes) drop[at] = input[i] == 1;
    if (!drop[at]) out.push_back(input[i]);
  }
  ctx.set_output(0, ctx.dtype(0), Shape(std::move(out)));
  forward_values(ctx, 0);
}

void evaluate_squeeze(EvalContext& ctx) {
  const Dims& input = ctx.dims(0);
  std::vector<bool> drop(input.size(), false);
  if (ctx.has_input(1)) drop = mark_axes(ctx.ints(1), input.rank(), "Squeeze");
  Dims out;
  for (int i = 0; i < input.rank(); ++i) {
    const bool dropped = drop[static_cast<size_t>(i)];
    if (dropped && input[i] != 1) {
      throw Error(Code::SHAPE_MISMATCH, "Squeeze: dim " + std::to_string(i) + " of " + input.to_string() + " is not 1");
    }
    if (!(dropped || (!ctx.has_input(1) && input[i] == 1))) out.push_back(input[i]);
  }
  copy_elements(ctx.input(0), ctx.output(0, ctx.dtype(0), out));
}

void infer_unsqueeze(InferContext& ctx) {
  const Shape& input = ctx.shape(0);
  const auto axes = ctx.constant_ints(1);
  if (!input.ranked() || !axes) {
    const auto added = count_of_axes(ctx);
    const bool rank_known = input.ranked() && added && *added <= kMaxRank;
    return ctx.set_output(0, ctx.dtype(0),
                          rank_known ? ctx.fresh_shape(input.rank() + static_cast<int>(*added)) : Shape());
  }
  const int rank = input.rank() + static_cast<int>(axes->size());
  const std::vector<bool> added = mark_axes(*axes, rank, "Unsqueeze");
  std::vector<Dim> out;
  int next = 0;
  for (int i = 0; i < rank; ++i) out.push_back(added[static_cast<size_t>(i)] ? Dim(1) : input[next++]);
  ctx.set_output(0, ctx.dtype(0), Shape(std::move(out)));
  if (rank <= 1) forward_values(ctx, 0);
}

void evaluate_unsqueeze(EvalContext& ctx) {
  const std::vector<int64_t> axes = ctx.ints(1);
  const int rank = ctx.dims(0).rank() + static_cast<int>(axes.size());
  const std::vector<bool> added = mark_axes(axes, rank, "Unsqueeze");
  Dims out;
  int next = 0;
  for (int i = 0; i < rank; ++i) out.push_back(added[static_cast<size_t>(i)] ? 1 : ctx.dims(0)[next++]);
  copy_elements(ctx.input(0), ctx.output(0, ctx.dtype(0), out));
}

// ---- Flatten, Identity ----------------------------------------------------------------------------

int flatten_axis(const Attributes& attrs, int rank) {
  const int64_t axis = attrs.get_int("axis", 1);
  if (axis < -rank || axis > rank) {
    throw Error(Code::ATTRIBUTE,
                "Flatten: axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

void infer_flatten(InferContext& ctx) {
  const Shape& input = ctx.shape(0);
  if (!input.ranked()) return ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(2));
  const int axis = flatten_axis(ctx.attrs(), input.rank());
  Dim rows(1);
  Dim columns(1);
  for (int i = 0; i < input.rank(); ++i) (i < axis ? rows : columns) = (i < axis ? rows : columns) * input[i];
  ctx.set_output(0, ctx.dtype(0), Shape({rows, columns}));
}

void evaluate_flatten(EvalContext& ctx) {
  const Dims& input = ctx.dims(0);
  const int axis = flatten_axis(ctx.attrs(), input.rank());
  Dims out{1, 1};
  for (int i = 0; i < input.rank(); ++i) out[i < axis ? 0 : 1] *= input[i];
  copy_elements(ctx.input(0), ctx.output(0, ctx.dtype(0), out));
}

void infer_identity(InferContext& ctx) {
  infer_like_input(ctx);
  forward_values(ctx, 0);
}

void evaluate_identity(EvalContext& ctx) { copy_elements(ctx.input(0), ctx.output(0, ctx.dtype(0), ctx.dims(0))); }

// ---- Shape, Size ----------------------------------------------------------------------------------

// [start, end) of the dims that Shape gives.
std::pair<int, int> shape_range(const Attributes& attrs, int rank) {
  const auto clamped = [rank](int64_t i) {
    if (i < 0) i += rank;
    return static_cast<int>(std::clamp<int64_t>(i, 0, rank));
  };
  const int start = clamped(attrs.get_int("start", 0));
  const int end = clamped(attrs.get_int("end", rank));
  return {start, std::max(start, end)};
}

void infer_shape(InferContext& ctx) {
  const Shape& input = ctx.shape(0);
  if (!input.ranked()) return ctx.set_output(0, DType::INT64, ctx.fresh_shape(1));
  const auto [start, end] = shape_range(ctx.attrs(), input.rank());
  ctx.set_output(0, DType::INT64, Shape({Dim(end - start)}));
  ctx.set_output_values(0, {input.dims().begin() + start, input.dims().begin() + end});
}

void evaluate_shape(EvalContext& ctx) {
  const auto [start, end] = shape_range(ctx.attrs(), ctx.dims(0).rank());
  const TensorView out = ctx.output(0, DType::INT64, Dims{end - start});
  for (int i = start; i < end; ++i) out.as<int64_t>()[i - start] = ctx.dims(0)[i];
}

void infer_size(InferContext& ctx) {
  ctx.set_output(0, DType::INT64, Shape(std::vector<Dim>{}));
  if (ctx.shape(0).ranked()) ctx.set_output_values(0, {ctx.shape(0).count()});
}

void evaluate_size(EvalContext& ctx) { *ctx.output(0, DType::INT64, {}).as<int64_t>() = ctx.input(0).count(); }

}  // namespace

void add_view_ops(OpRegistry& registry) {
  registry.add({.name = "Reshape",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_reshape,
                .evaluate = evaluate_reshape,
                .view = true,
                .shape_inputs = {1}});
  registry.add({.name = "Squeeze",
                .max_inputs = 2,
                .infer = infer_squeeze,
                .evaluate = evaluate_squeeze,
                .view = true,
                .shape_inputs = {1}});
  registry.add({.name = "Unsqueeze",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_unsqueeze,
                .evaluate = evaluate_unsqueeze,
                .view = true,
                .shape_inputs = {1}});
  registry.add({.name = "Flatten", .infer = infer_flatten, .evaluate = evaluate_flatten, .view = true});
  registry.add({.name = "Identity", .infer = infer_identity, .evaluate = evaluate_identity, .view = true});
  registry.add({.name = "Shape", .infer = infer_shape, .evaluate = evaluate_shape});
  registry.add({.name = "Size", .infer = infer_size, .evaluate = evaluate_size});
}

}  // namespace deepjit
