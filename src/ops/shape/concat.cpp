// Concat and Split: both move blocks of rows between one tensor and several.
#include "ops/common.h"
#include "ops/shape/movement.h"
#include "ops/shape/strided_copy.h"

namespace deepjit {

namespace {

// Two dims that must be equal: the one that says more. Throws when they cannot be.
Dim same_dim(const Dim& a, const Dim& b, int input, int axis) {
  if (a.is_const() && b.is_const() && !(a == b)) {
    throw Error(Code::SHAPE_MISMATCH, "Concat: input " + std::to_string(input) + " has dimension " + b.to_string() +
                                          " at axis " + std::to_string(axis) + ", expected " + a.to_string());
  }
  return b.is_const() ? b : a;
}

void infer_concat(InferContext& ctx) {
  const int64_t axis_attribute = ctx.attrs().require_int("axis");
  Shape out;
  Dim total(0);
  bool all_ranked = true;
  bool values_known = true;
  std::vector<Dim> values;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    expect_same_type(ctx, "Concat", i, 0);
    const Shape& in = ctx.shape(i);
    const std::vector<Dim>* known = known_values(ctx, i);
    values_known = values_known && known != nullptr && in.ranked() && in.rank() == 1;
    if (values_known) values.insert(values.end(), known->begin(), known->end());
    if (!in.ranked()) {
      all_ranked = false;
      continue;
    }
    if (!out.ranked()) out = in;
    if (in.rank() != out.rank()) {
      throw Error(Code::SHAPE_MISMATCH, "Concat: input " + std::to_string(i) + " has rank " +
                                            std::to_string(in.rank()) + ", expected " + std::to_string(out.rank()));
    }
    const int axis = normalize_axis(axis_attribute, in.rank(), "Concat: axis");
    for (int d = 0; d < in.rank(); ++d) {
      if (d != axis) out[d] = same_dim(out[d], in[d], i, d);
    }
    total = total + in[axis];
  }
  if (out.ranked()) {
    const int axis = normalize_axis(axis_attribute, out.rank(), "Concat: axis");
    out[axis] = all_ranked ? total : ctx.fresh_dim();
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  if (values_known && static_cast<int64_t>(values.size()) <= kMaxTrackedValues) {
    ctx.set_output_values(0, std::move(values));
  }
}

void evaluate_concat(EvalContext& ctx) {
  Dims dims = ctx.dims(0);
  const int axis = normalize_axis(ctx.attrs().require_int("axis"), dims.rank(), "Concat: axis");
  dims[axis] = 0;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Dims& in = ctx.dims(i);
    for (int d = 0; d < dims.rank(); ++d) {
      if (in.rank() != dims.rank() || (d != axis && in[d] != dims[d])) {
        throw Error(Code::SHAPE_MISMATCH, "Concat: input " + std::to_string(i) + " has shape " + in.to_string() +
                                              ", the first has " + ctx.dims(0).to_string());
      }
    }
    dims[axis] = checked_add(dims[axis], in[axis]);
  }
  const TensorView out = ctx.output(0, ctx.dtype(0), dims);
  if (out.count() == 0) return;
  const int64_t outer = count_range(dims, 0, axis);
  const int64_t inner = count_range(dims, axis + 1, dims.rank());
  const int64_t row = dims[axis] * inner;
  visit_movable(out.dtype, [&]<typename T>() {
    T* to = out.as<T>();
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const int64_t run = ctx.dims(i)[axis] * inner;
      if (run == 0) continue;
      copy_strided<T>({{outer, run, row}, {run, 1, 1}}, ctx.input(i).as<T>(), to);
      to += run;
    }
  });
}

// Part i of n of a dim: ceil(dim / n) each, the last ones take what is left.
Dim even_part(const Dim& dim, int i, int n) {
  if (const std::optional<Dim> exact = Dim::exact_div(dim, Dim(n))) return *exact;
  const Dim chunk = ceildiv(dim, Dim(n));
  if (i == 0) return chunk;
  if (n == 2) return floordiv(dim, Dim(2));
  return min(chunk, max(dim - Dim(i) * chunk, Dim(0)));
}

void check_split(const std::vector<Dim>& sizes, const Dim& dim, int num_outputs) {
  if (static_cast<int>(sizes.size()) != num_outputs) {
    throw Error(Code::SHAPE_MISMATCH, "Split: split has " + std::to_string(sizes.size()) + " sizes for " +
                                          std::to_string(num_outputs) + " outputs");
  }
  Dim total(0);
  for (const Dim& size : sizes) {
    total = total + size;
    if (size.is_const() && size.value() < 0) {
      throw Error(Code::SHAPE_MISMATCH, "Split: size " + size.to_string() + " is negative");
    }
  }
  if (total.is_const() && dim.is_const() && !(total == dim)) {
    throw Error(Code::SHAPE_MISMATCH,
                "Split: the sizes add up to " + total.to_string() + ", the axis has " + dim.to_string());
  }
}

int split_outputs(const Attributes& attrs, int num_outputs) {
  const int64_t n = attrs.get_int("num_outputs", num_outputs);
  if (n != num_outputs) {
    throw Error(Code::ATTRIBUTE, "Split: num_outputs is " + std::to_string(n) + ", the node has " +
                                     std::to_string(num_outputs) + " outputs");
  }
  return num_outputs;
}

void infer_split(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  const int n = ctx.has_input(1) ? ctx.num_outputs() : split_outputs(ctx.attrs(), ctx.num_outputs());
  const int axis = in.ranked() ? normalize_axis(ctx.attrs().get_int("axis", 0), in.rank(), "Split: axis") : 0;
  const std::vector<Dim>* sizes = known_values(ctx, 1);
  if (sizes != nullptr) check_split(*sizes, in.ranked() ? in[axis] : Dim::symbol("?"), n);
  const std::vector<Dim>* values = in.ranked() && in.rank() == 1 ? known_values(ctx, 0) : nullptr;
  size_t taken = 0;
  for (int i = 0; i < n; ++i) {
    if (!in.ranked()) {
      ctx.set_output(i, ctx.dtype(0), Shape());
      continue;
    }
    Shape out = in;
    if (sizes != nullptr) {
      out[axis] = (*sizes)[static_cast<size_t>(i)];
    } else {
      out[axis] = ctx.has_input(1) ? ctx.fresh_dim() : even_part(in[axis], i, n);
    }
    const std::optional<int64_t> length = out[axis].as_const();
    ctx.set_output(i, ctx.dtype(0), std::move(out));
    if (values == nullptr || !length || taken + static_cast<size_t>(*length) > values->size()) {
      values = nullptr;
      continue;
    }
    const auto begin = values->begin() + static_cast<std::ptrdiff_t>(taken);
    ctx.set_output_values(i, std::vector<Dim>(begin, begin + *length));
    taken += static_cast<size_t>(*length);
  }
}

void evaluate_split(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int axis = normalize_axis(ctx.attrs().get_int("axis", 0), in.dims.rank(), "Split: axis");
  const int n = ctx.num_outputs();
  std::vector<Dim> sizes;
  if (ctx.has_input(1)) {
    for (int64_t size : ctx.ints(1)) sizes.emplace_back(size);
    check_split(sizes, in.dims[axis], n);
  } else {
    for (int i = 0; i < split_outputs(ctx.attrs(), n); ++i) sizes.push_back(even_part(in.dims[axis], i, n));
  }
  const int64_t outer = count_range(in.dims, 0, axis);
  const int64_t inner = count_range(in.dims, axis + 1, in.dims.rank());
  int64_t offset = 0;
  for (int i = 0; i < n; ++i) {
    Dims dims = in.dims;
    dims[axis] = sizes[static_cast<size_t>(i)].value();
    const int64_t run = dims[axis] * inner;
    if (ctx.has_output(i)) {
      const TensorView out = ctx.output(i, in.dtype, dims);
      if (out.count() > 0) {
        visit_movable(in.dtype, [&]<typename T>() {
          copy_strided<T>({{outer, in.dims[axis] * inner, run}, {run, 1, 1}}, in.as<T>() + offset, out.as<T>());
        });
      }
    }
    offset += run;
  }
}

}  // namespace

void add_concat_ops(OpRegistry& registry) {
  registry.add({.name = "Concat", .max_inputs = kMany, .infer = infer_concat, .evaluate = evaluate_concat});
  registry.add({.name = "Split",
                .max_inputs = 2,
                .max_outputs = kMany,
                .infer = infer_split,
                .evaluate = evaluate_split,
                .shape_inputs = {1}});
}

}  // namespace deepjit
