// Reshape. In its target -1 is what is left, and 0 copies the input's dim (or, with allowzero, is a size).
//
// A computed size is a symbol while building, and may turn out to be 0: then ONNX copies the dim as well. So a symbolic
// size stands for itself only where that cannot matter; elsewhere the dim is written as "the size, or the copied dim".
#include <algorithm>

#include "ops/common.h"
#include "ops/shape/movement.h"

namespace deepjit {

namespace {

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

// The dim that makes the counts equal, where it can be told. Copied dims cancel, so that a batch of 0 keeps its other
// dims.
std::optional<Dim> solve_minus_one(const Shape& input, const Wanted& rule, const std::vector<Dim>& wanted) {
  if (!input.ranked()) return std::nullopt;
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
  if (std::optional<Dim> exact = Dim::exact_div(total, others)) return exact;
  return known_nonnegative(others) ? std::optional<Dim>(floordiv(total, others)) : std::nullopt;
}

// `size`, or `copied` where size is 0. One factor, so that products of such dims stay small.
Dim or_copied(const Dim& size, const Dim& copied) { return max(size, copied * (Dim(1) - min(size, Dim(1)))); }

// `positive` where size is above 0, else `zero`.
Dim by_size(const Dim& size, const Dim& positive, const Dim& zero) {
  if (positive == zero) return zero;
  const Dim one = min(size, Dim(1));
  return max(positive * one, zero * (Dim(1) - one));
}

// Is `size` 0 only where `dim` is 0 too?
bool zero_together(const Dim& size, const Dim& dim) {
  const std::optional<Dim> factor = Dim::exact_div(size, dim);
  return factor && factor->lower_bound().value_or(0) >= 1;
}

// The positions whose size may be 0 at run time where the input has another dim to copy.
std::vector<size_t> doubtful_positions(const Shape& input, const std::vector<Dim>& wanted) {
  std::vector<size_t> out;
  for (size_t i = 0; i < wanted.size() && static_cast<int>(i) < input.rank(); ++i) {
    const bool positive = wanted[i].is_const() || wanted[i].lower_bound().value_or(0) >= 1;
    if (!positive && !zero_together(wanted[i], input[static_cast<int>(i)])) out.push_back(i);
  }
  return out;
}

// Those doubtful positions that can be copied: the counts are then equal. Where the counts are equal as they stand, a
// size of 0 means an empty input, and a copy beside sizes above 0 would be no reshape.
std::vector<size_t> copied_at_zero(const Shape& input, const std::vector<Dim>& out,
                                   const std::vector<size_t>& doubtful) {
  constexpr size_t kTried = 4;  // positions of which all combinations are tried
  const Dim before = input.count();
  if (doubtful.empty() || Shape(out).count() == before) return {};
  if (doubtful.size() > kTried) return doubtful;
  size_t found = 0;
  for (size_t choice = 1; choice < size_t{1} << doubtful.size(); ++choice) {
    std::vector<Dim> sizes = out;
    for (size_t k = 0; k < doubtful.size(); ++k) {
      if ((choice >> k & 1) != 0) sizes[doubtful[k]] = input[static_cast<int>(doubtful[k])];
    }
    if (Shape(std::move(sizes)).count() == before) found |= choice;
  }
  std::vector<size_t> positions;
  for (size_t k = 0; k < doubtful.size(); ++k) {
    if ((found >> k & 1) != 0) positions.push_back(doubtful[k]);
  }
  return positions;
}

// What -1 stands for. A single doubtful size gives one answer where it is 0 and one where it is not.
Dim dim_left(InferContext& ctx, const Wanted& rule, const std::vector<Dim>& wanted,
             const std::vector<size_t>& doubtful) {
  const std::optional<Dim> meant = solve_minus_one(ctx.shape(0), rule, wanted);
  if (!meant || doubtful.size() > 1) return ctx.fresh_dim();
  if (doubtful.empty()) return *meant;
  Wanted with_copy = rule;
  with_copy.copied[doubtful[0]] = true;
  const std::optional<Dim> zero = solve_minus_one(ctx.shape(0), with_copy, wanted);
  return zero ? by_size(wanted[doubtful[0]], *meant, *zero) : ctx.fresh_dim();
}

Shape reshaped_unranked(InferContext& ctx, const Wanted& rule, std::vector<Dim> wanted, bool allowzero) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool positive = wanted[i].lower_bound().value_or(0) >= 1;
    const bool known = positive || (allowzero && static_cast<int>(i) != rule.minus_one);
    if (!known) wanted[i] = ctx.fresh_dim();
  }
  return Shape(std::move(wanted));
}

Shape reshaped(InferContext& ctx, const std::vector<Dim>& wanted, bool allowzero) {
  const Shape& input = ctx.shape(0);
  const std::string from = input.to_string();
  const Wanted rule = check_wanted(wanted, from, input.ranked() ? input.rank() : -1, allowzero);
  if (!input.ranked()) return reshaped_unranked(ctx, rule, wanted, allowzero);
  std::vector<Dim> out = wanted;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (rule.copied[i]) out[i] = input[static_cast<int>(i)];
  }
  std::vector<size_t> doubtful;
  if (!allowzero) doubtful = doubtful_positions(input, wanted);
  if (rule.minus_one >= 0) {
    out[static_cast<size_t>(rule.minus_one)] = dim_left(ctx, rule, wanted, doubtful);
  } else {
    const Dim before = input.count();
    const Dim after = Shape(out).count();
    if (before.is_const() && after.is_const() && !(before == after)) fail_reshape(from, Shape(out).to_string());
    doubtful = copied_at_zero(input, out, doubtful);
  }
  for (size_t i : doubtful) out[i] = or_copied(out[i], input[static_cast<int>(i)]);
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

}  // namespace

void add_reshape_ops(OpRegistry& registry) {
  registry.add({.name = "Reshape",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_reshape,
                .evaluate = evaluate_reshape,
                .view = true,
                .shape_inputs = {1}});
}

}  // namespace deepjit
