// MatMul, deepjit.MatMul, Gemm and Det.
#include "ops/linear/matmul.h"

#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/linear/epilogue.h"
#include "ops/linear/gemm.h"

namespace deepjit {

Dim broadcast_dim(InferContext& ctx, const Dim& a, const Dim& b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  if (a.is_const() && b.is_const()) {
    throw Error(Code::SHAPE_MISMATCH, "dims " + a.to_string() + " and " + b.to_string() + " do not broadcast");
  }
  // A constant other than 1 wins over a symbol: the symbol can only be that constant or 1.
  if (a.is_const()) return a;
  if (b.is_const()) return b;
  return ctx.fresh_dim();
}

std::vector<Dim> broadcast_dims(InferContext& ctx, const std::vector<Dim>& a, const std::vector<Dim>& b) {
  const std::vector<Dim>& longer = a.size() >= b.size() ? a : b;
  const std::vector<Dim>& shorter = a.size() >= b.size() ? b : a;
  std::vector<Dim> out = longer;
  const size_t shift = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) out[shift + i] = broadcast_dim(ctx, longer[shift + i], shorter[i]);
  return out;
}

namespace {

void check_same_dtype(const InferContext& ctx, int i) {
  if (!ctx.has_input(i) || ctx.dtype(i) == ctx.dtype(0)) return;
  throw Error(Code::TYPE, "input " + std::to_string(i) + " is " + std::string(dtype_name(ctx.dtype(i))) +
                              ", input 0 is " + std::string(dtype_name(ctx.dtype(0))));
}

void check_inner(const Dim& a, const Dim& b, const Shape& left, const Shape& right) {
  if (!a.is_const() || !b.is_const() || a == b) return;
  throw Error(Code::SHAPE_MISMATCH, "inner dims differ: " + left.to_string() + " times " + right.to_string());
}

// The result's shape; the operands may be swapped in their last two dims.
Shape matmul_shape(InferContext& ctx, bool trans_a, bool trans_b) {
  const Shape &sa = ctx.shape(0), &sb = ctx.shape(1);
  if (!sa.ranked() || !sb.ranked()) return Shape();
  if (sa.rank() == 0 || sb.rank() == 0) throw Error(Code::SHAPE_MISMATCH, "MatMul does not take scalars");
  std::vector<Dim> a = sa.dims(), b = sb.dims();
  if (a.size() == 1) a.insert(a.begin(), Dim(1));
  if (b.size() == 1) b.push_back(Dim(1));
  if (trans_a && sa.rank() > 1) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (trans_b && sb.rank() > 1) std::swap(b[b.size() - 1], b[b.size() - 2]);
  check_inner(a.back(), b[b.size() - 2], sa, sb);
  std::vector<Dim> out = broadcast_dims(ctx, {a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (sa.rank() > 1) out.push_back(a[a.size() - 2]);
  if (sb.rank() > 1) out.push_back(b.back());
  return Shape(out);
}

// Sizes and strides of one (batched) product.
struct Product {
  Dims batch;                 // the broadcast batch dims
  Dims a_strides, b_strides;  // elements per step of each batch dim, 0 where broadcast
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column;
  Dims result;
};

Dims batch_strides(const Dims& dims, const Dims& batch) {
  const Dims own = dims.strides();
  Dims strides = Dims::filled(batch.rank(), 0);
  const int count = dims.rank() - 2;
  for (int i = 0; i < count; ++i) {
    if (dims[i] != 1) strides[batch.rank() - count + i] = own[i];
  }
  return strides;
}

Product plan_product(Dims a, Dims b, bool trans_a, bool trans_b) {
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a.insert(0, 1);
  if (column) b.push_back(1);
  trans_a = trans_a && !row;
  trans_b = trans_b && !column;
  Product p;
  const int ra = a.rank(), rb = b.rank();
  Dims batch_a(std::span<const int64_t>(a.begin(), a.size() - 2));
  Dims batch_b(std::span<const int64_t>(b.begin(), b.size() - 2));
  p.batch = broadcast_dims(batch_a, batch_b);
  p.a_strides = batch_strides(a, p.batch);
  p.b_strides = batch_strides(b, p.batch);
  p.m = trans_a ? a[ra - 1] : a[ra - 2];
  p.k = trans_a ? a[ra - 2] : a[ra - 1];
  p.n = trans_b ? b[rb - 2] : b[rb - 1];
  if (p.k != (trans_b ? b[rb - 1] : b[rb - 2])) {
    throw Error(Code::SHAPE_MISMATCH, "MatMul: inner dims differ: " + a.to_string() + " times " + b.to_string());
  }
  p.a_row = trans_a ? 1 : a[ra - 1];
  p.a_column = trans_a ? a[ra - 1] : 1;
  p.b_row = trans_b ? 1 : b[rb - 1];
  p.b_column = trans_b ? b[rb - 1] : 1;
  p.result = p.batch;
  if (!row) p.result.push_back(p.m);
  if (!column) p.result.push_back(p.n);
  // One matrix times many rows: a single tall product.
  if (batch_b.count() == 1 && !trans_a && batch_a.count() == p.batch.count()) {
    p.m = checked_mul(p.m, p.batch.count());
    p.batch = Dims();
  }
  return p;
}

template <typename T>
void run_product(const Product& p, const T* a, const T* b, T* y) {
  const int64_t count = p.batch.count();
  Dims index = Dims::filled(p.batch.rank(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t a_offset = 0, b_offset = 0;
    for (int d = 0; d < p.batch.rank(); ++d) {
      a_offset += index[d] * p.a_strides[d];
      b_offset += index[d] * p.b_strides[d];
    }
    gemm<T>(p.m, p.n, p.k, {a + a_offset, p.a_row, p.a_column}, {b + b_offset, p.b_row, p.b_column}, y + i * p.m * p.n,
            p.n);
    for (int d = p.batch.rank() - 1; d >= 0 && ++index[d] == p.batch[d]; --d) index[d] = 0;
  }
}

// Calls f with the element type for the four integer types that MatMul and Gemm take; false for others.
template <typename F>
bool visit_wide_integer(DType dtype, F&& f) {
  switch (dtype) {
    case DType::INT32:
      f.template operator()<int32_t>();
      return true;
    case DType::UINT32:
      f.template operator()<uint32_t>();
      return true;
    case DType::INT64:
      f.template operator()<int64_t>();
      return true;
    case DType::UINT64:
      f.template operator()<uint64_t>();
      return true;
    default:
      return false;
  }
}

void evaluate_matmul(EvalContext& ctx) {
  const Product p = plan_product(ctx.dims(0), ctx.dims(1), false, false);
  const DType dtype = ctx.dtype(0);
  const bool whole = visit_wide_integer(dtype, [&]<typename T>() {
    run_product(p, ctx.data<const T>(0), ctx.data<const T>(1), ctx.output(0, dtype, p.result).as<T>());
  });
  if (whole) return;
  visit_compute(dtype, "MatMul", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, dtype, p.result);
    run_product(p, read_compute<C>(ctx, 0), read_compute<C>(ctx, 1), out.data());
    out.finish();
  });
}

void evaluate_fused_matmul(EvalContext& ctx) {
  const bool trans_a = ctx.attrs().get_int("trans_a", 0) != 0;
  const bool trans_b = ctx.attrs().get_int("trans_b", 0) != 0;
  const Product p = plan_product(ctx.dims(0), ctx.dims(1), trans_a, trans_b);
  visit_compute(ctx.dtype(0), "deepjit.MatMul", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), p.result);
    run_product(p, read_compute<C>(ctx, 0), read_compute<C>(ctx, 1), out.data());
    if (ctx.has_input(2)) {
      const TensorView bias = ctx.input(2);
      const EpilogueOp add{"Add", 0, 0, 0};
      apply_epilogue({&add, 1}, {&bias, 1}, out.view());
    }
    apply_epilogue(ctx, out.view());
    out.finish();
  });
}

void expect_product(const InferContext& ctx, std::string_view op) {
  const DType dtype = ctx.dtype(0);
  expect_type(ctx, op, 0, is_compute_float(dtype) || (is_integer(dtype) && dtype_size(dtype) >= 4),
              "a tensor of floating-point numbers or of integers of 32 or 64 bits");
}

void infer_matmul(InferContext& ctx) {
  expect_product(ctx, "MatMul");
  check_same_dtype(ctx, 1);
  ctx.set_output(0, ctx.dtype(0), matmul_shape(ctx, false, false));
}

void infer_fused_matmul(InferContext& ctx) {
  expect_compute_float(ctx, "MatMul", 0);
  check_same_dtype(ctx, 1);
  check_same_dtype(ctx, 2);
  const Shape shape = matmul_shape(ctx, ctx.attrs().get_int("trans_a", 0) != 0, ctx.attrs().get_int("trans_b", 0) != 0);
  if (ctx.has_input(2) && ctx.shape(2).ranked() && shape.ranked() && ctx.shape(2).rank() > shape.rank()) {
    throw Error(Code::SHAPE_MISMATCH,
                "the bias " + ctx.shape(2).to_string() + " does not broadcast to the result " + shape.to_string());
  }
  check_epilogue(ctx, shape);
  ctx.set_output(0, ctx.dtype(0), shape);
}

// y = alpha * y + beta * c, c broadcast to [m, n].
template <typename T>
void scale_and_add(T* y, int64_t m, int64_t n, float alpha, float beta, const T* c, const Dims& c_dims) {
  const int rank = c_dims.rank();
  const int64_t columns = rank < 1 ? 1 : c_dims[rank - 1];
  const int64_t rows = rank < 2 ? 1 : c_dims[0];
  const T a = static_cast<T>(alpha), b = static_cast<T>(beta);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T value = a * y[i * n + j];
      if (c != nullptr) value += b * c[(rows == 1 ? 0 : i) * columns + (columns == 1 ? 0 : j)];
      y[i * n + j] = value;
    }
  }
}

void evaluate_gemm(EvalContext& ctx) {
  const Attributes& attrs = ctx.attrs();
  const Product p = plan_product(ctx.dims(0), ctx.dims(1), attrs.get_int("transA", 0), attrs.get_int("transB", 0));
  const float alpha = attrs.get_float("alpha", 1), beta = attrs.get_float("beta", 1);
  const DType dtype = ctx.dtype(0);
  const Dims c_dims = ctx.has_input(2) ? ctx.dims(2) : Dims();
  if (broadcast_dims(c_dims, p.result) != p.result) {
    throw Error(Code::SHAPE_MISMATCH,
                "Gemm: C " + c_dims.to_string() + " does not broadcast to " + p.result.to_string());
  }
  const bool whole = visit_wide_integer(dtype, [&]<typename T>() {
    T* y = ctx.output(0, dtype, p.result).as<T>();
    run_product(p, ctx.data<const T>(0), ctx.data<const T>(1), y);
    scale_and_add(y, p.m, p.n, alpha, beta, ctx.has_input(2) ? ctx.data<const T>(2) : nullptr, c_dims);
  });
  if (whole) return;
  visit_compute(dtype, "Gemm", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, dtype, p.result);
    run_product(p, read_compute<C>(ctx, 0), read_compute<C>(ctx, 1), out.data());
    scale_and_add(out.data(), p.m, p.n, alpha, beta, read_optional<C>(ctx, 2), c_dims);
    out.finish();
  });
}

void infer_gemm(InferContext& ctx) {
  expect_product(ctx, "Gemm");
  check_same_dtype(ctx, 1);
  check_same_dtype(ctx, 2);
  const bool ta = ctx.attrs().get_int("transA", 0) != 0, tb = ctx.attrs().get_int("transB", 0) != 0;
  for (int i = 0; i < 2; ++i) {
    if (ctx.shape(i).ranked() && ctx.shape(i).rank() != 2) {
      throw Error(Code::SHAPE_MISMATCH,
                  "Gemm needs matrices, input " + std::to_string(i) + " is " + ctx.shape(i).to_string());
    }
  }
  const Shape a = ctx.shape(0).ranked() ? ctx.shape(0) : ctx.fresh_shape(2);
  const Shape b = ctx.shape(1).ranked() ? ctx.shape(1) : ctx.fresh_shape(2);
  check_inner(a[ta ? 0 : 1], b[tb ? 1 : 0], a, b);
  const Shape y({a[ta ? 1 : 0], b[tb ? 0 : 1]});
  if (ctx.has_input(2) && ctx.shape(2).ranked()) {
    const Shape& c = ctx.shape(2);
    bool fits = c.rank() <= 2;
    for (int i = 0; fits && i < c.rank(); ++i) {
      const Dim& to = y[2 - c.rank() + i];
      fits = !c[i].is_const() || c[i] == 1 || !to.is_const() || c[i] == to;
    }
    if (!fits) {
      throw Error(Code::SHAPE_MISMATCH, "Gemm: C " + c.to_string() + " does not broadcast to " + y.to_string());
    }
  }
  ctx.set_output(0, ctx.dtype(0), y);
}

// Determinant by elimination with row pivoting; destroys a.
double determinant(double* a, int64_t n) {
  double det = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    }
    if (a[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
      det = -det;
    }
    det *= a[k * n + k];
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (int64_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return det;
}

void evaluate_det(EvalContext& ctx) {
  const Dims& x = ctx.dims(0);
  const Dims batch(std::span<const int64_t>(x.begin(), x.size() - 2));
  const int64_t n = x.back(), size = n * n;
  visit_compute(ctx.dtype(0), "Det", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), batch);
    const C* in = read_compute<C>(ctx, 0);
    double* matrix = scratch_array<double>(ctx, size);
    for (int64_t i = 0; i < batch.count(); ++i) {
      std::copy(in + i * size, in + (i + 1) * size, matrix);
      out.data()[i] = static_cast<C>(determinant(matrix, n));
    }
    out.finish();
  });
}

void infer_det(InferContext& ctx) {
  expect_compute_float(ctx, "Det", 0);
  const Shape& x = ctx.shape(0);
  if (!x.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  if (x.rank() < 2) throw Error(Code::SHAPE_MISMATCH, "Det needs square matrices, got " + x.to_string());
  const Dim &rows = x[x.rank() - 2], &columns = x[x.rank() - 1];
  if (rows.is_const() && columns.is_const() && !(rows == columns)) {
    throw Error(Code::SHAPE_MISMATCH, "Det needs square matrices, got " + x.to_string());
  }
  ctx.set_output(0, ctx.dtype(0), Shape(std::vector<Dim>(x.dims().begin(), x.dims().end() - 2)));
}

}  // namespace

void add_matmul_ops(OpRegistry& registry) {
  registry.add(
      {.name = "MatMul", .min_inputs = 2, .max_inputs = 2, .infer = infer_matmul, .evaluate = evaluate_matmul});
  registry.add({.name = "deepjit.MatMul",
                .min_inputs = 2,
                .max_inputs = kMany,
                .infer = infer_fused_matmul,
                .evaluate = evaluate_fused_matmul});
  registry.add({.name = "Gemm", .min_inputs = 2, .max_inputs = 3, .infer = infer_gemm, .evaluate = evaluate_gemm});
  registry.add({.name = "Det", .infer = infer_det, .evaluate = evaluate_det});
  add_einsum_op(registry);
}

}  // namespace deepjit
