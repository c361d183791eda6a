#include "ops/common.h"

#include <algorithm>

#include "base/small_types.h"

namespace deepjit {

namespace {

std::string type_text(const InferContext& ctx, int i) { return std::string(dtype_name(ctx.dtype(i))); }

}  // namespace

void expect_same_type(const InferContext& ctx, std::string_view op, int i, int j) {
  if (ctx.dtype(i) == ctx.dtype(j)) return;
  throw Error(Code::TYPE, std::string(op) + ": inputs " + std::to_string(j) + " and " + std::to_string(i) +
                              " must have one element type, got " + type_text(ctx, j) + " and " + type_text(ctx, i));
}

void expect_type(const InferContext& ctx, std::string_view op, int i, bool ok, std::string_view expected) {
  if (ok) return;
  throw Error(Code::TYPE, std::string(op) + ": input " + std::to_string(i) + " must be " + std::string(expected) +
                              ", got " + type_text(ctx, i));
}

bool is_compute_float(DType dtype) { return is_float(dtype) && !is_small_float(dtype); }
bool is_numeric(DType dtype) { return is_compute_float(dtype) || (is_integer(dtype) && !is_packed(dtype)); }

void expect_numeric(const InferContext& ctx, std::string_view op, int i) {
  expect_type(ctx, op, i, is_numeric(ctx.dtype(i)), "a numeric tensor");
}
void expect_compute_float(const InferContext& ctx, std::string_view op, int i) {
  expect_type(ctx, op, i, is_compute_float(ctx.dtype(i)), "a floating-point tensor");
}
void expect_integer(const InferContext& ctx, std::string_view op, int i) {
  expect_type(ctx, op, i, is_integer(ctx.dtype(i)) && !is_packed(ctx.dtype(i)),
              "a tensor of integers of 8 bits or more");
}

DType dtype_attribute(const Attributes& attrs, const std::string& name, DType fallback) {
  if (!attrs.has(name)) return fallback;
  const int64_t number = attrs.get_int(name, 0);
  if (number == 0) return fallback;
  const DType dtype = static_cast<DType>(number);
  if (number < 0 || number > 255 || dtype_name(dtype) == "unknown") {
    throw Error(Code::ATTRIBUTE,
                "attribute \"" + name + "\": element type " + std::to_string(number) + " is not supported");
  }
  return dtype;
}

namespace {

Dim broadcast_dim(InferContext& ctx, const Shape& sa, const Shape& sb, const Dim& a, const Dim& b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  if (a.is_const() && b.is_const()) {
    throw Error(Code::SHAPE_MISMATCH, "shapes " + sa.to_string() + " and " + sb.to_string() + " do not broadcast");
  }
  // A constant other than 1 wins: the symbol is that constant or 1.
  if (a.is_const()) return a;
  if (b.is_const()) return b;
  if (agrees_where_valid(a, b)) return b;
  if (agrees_where_valid(b, a)) return a;
  return ctx.fresh_dim();
}

}  // namespace

Shape broadcast_shapes(InferContext& ctx, const Shape& a, const Shape& b) {
  if (!a.ranked() || !b.ranked()) return Shape();
  const int rank = std::max(a.rank(), b.rank());
  std::vector<Dim> out;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank());
    const int ib = i - (rank - b.rank());
    out.push_back(broadcast_dim(ctx, a, b, ia >= 0 ? a[ia] : Dim(1), ib >= 0 ? b[ib] : Dim(1)));
  }
  return Shape(std::move(out));
}

Shape broadcast_inputs(InferContext& ctx, int first) {
  Shape shape = ctx.shape(first);
  for (int i = first + 1; i < ctx.num_inputs(); ++i) shape = broadcast_shapes(ctx, shape, ctx.shape(i));
  return shape;
}

void infer_like_input(InferContext& ctx) { ctx.set_output(0, ctx.input(0)); }

void copy_elements(const TensorView& from, const TensorView& to) {
  if (from.data == to.data) return;
  if (from.dtype == DType::STRING) {
    std::copy_n(from.as<std::string>(), from.count(), to.as<std::string>());
  } else if (is_object(from.dtype)) {
    std::copy_n(from.as<Tensor>(), from.count(), to.as<Tensor>());
  } else if (from.count() > 0) {
    std::memcpy(to.data, from.data, static_cast<size_t>(from.bytes()));
  }
}

const std::vector<Dim>* known_values(const InferContext& ctx, int i) {
  return ctx.has_input(i) ? ctx.input_values(i) : nullptr;
}

void forward_values(InferContext& ctx, int i) {
  if (const std::vector<Dim>* values = known_values(ctx, i)) ctx.set_output_values(0, *values);
}

}  // namespace deepjit
