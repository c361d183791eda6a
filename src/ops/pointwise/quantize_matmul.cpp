// MatMulInteger and QLinearMatMul: 8-bit operands, int32 sums.
#include <algorithm>

#include "ops/common.h"
#include "ops/linear/matmul.h"
#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/quantize.h"
#include "ops/scalar.h"

namespace deepjit {

namespace {

Shape infer_product(InferContext& ctx, int ia, int ib) {
  const Shape& sa = ctx.shape(ia);
  const Shape& sb = ctx.shape(ib);
  if (!sa.ranked() || !sb.ranked()) return Shape();
  if (sa.rank() == 0 || sb.rank() == 0) throw Error(Code::SHAPE_MISMATCH, "matrix products do not take scalars");
  std::vector<Dim> a = sa.dims();
  std::vector<Dim> b = sb.dims();
  if (sa.rank() == 1) a.insert(a.begin(), Dim(1));
  if (sb.rank() == 1) b.push_back(Dim(1));
  const Dim& ka = a.back();
  const Dim& kb = b[b.size() - 2];
  if (ka.is_const() && kb.is_const() && !(ka == kb)) {
    throw Error(Code::SHAPE_MISMATCH, "inner dims differ: " + sa.to_string() + " times " + sb.to_string());
  }
  std::vector<Dim> out = broadcast_dims(ctx, {a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (sa.rank() > 1) out.push_back(a[a.size() - 2]);
  if (sb.rank() > 1) out.push_back(b.back());
  return Shape(std::move(out));
}

// The concrete problem: `batches` products of [m,k] and [k,n], operand offsets from a broadcast plan.
struct Product {
  int64_t m = 1, n = 1, k = 1;
  Dims a_batch, b_batch, batch, out;
};

Product product_of(const Dims& a, const Dims& b) {
  Product p;
  p.k = a.back();
  p.m = a.rank() > 1 ? a[a.rank() - 2] : 1;
  p.n = b.rank() > 1 ? b.back() : 1;
  for (int i = 0; i + 2 < a.rank(); ++i) p.a_batch.push_back(a[i]);
  for (int i = 0; i + 2 < b.rank(); ++i) p.b_batch.push_back(b[i]);
  p.batch = broadcast_dims(p.a_batch, p.b_batch);
  p.out = p.batch;
  if (a.rank() > 1) p.out.push_back(p.m);
  if (b.rank() > 1) p.out.push_back(p.n);
  if ((b.rank() > 1 ? b[b.rank() - 2] : b[0]) != p.k) {
    throw Error(Code::SHAPE_MISMATCH, "inner dims differ: " + a.to_string() + " times " + b.to_string());
  }
  return p;
}

// A zero point or scale a matrix, row (a) or column (b): element i of batch c.
template <typename T>
struct PerLine {
  std::vector<T> values;
  int64_t lines;  // m or n

  T at(int64_t batch, int64_t line) const {
    const auto count = static_cast<int64_t>(values.size());
    if (count == 1) return values[0];
    if (count == lines) return values[static_cast<size_t>(line)];
    return values[static_cast<size_t>((batch * lines + line) % count)];
  }
};

template <typename T>
PerLine<T> per_line(std::vector<T> values, int64_t lines, int64_t batches, const char* what) {
  const auto count = static_cast<int64_t>(values.size());
  if (count != 1 && count != lines && count != lines * batches) {
    throw Error(Code::SHAPE_MISMATCH, std::string(what) + " has " + std::to_string(count) +
                                          " elements, expected 1 or " + std::to_string(lines));
  }
  return {std::move(values), lines};
}

struct Operand {
  const TensorView& view;
  PerLine<int32_t> zero;
};

// acc[m,n] of one batch.
void multiply(const Product& p, const Operand& a, int64_t a_at, int64_t a_batch, const Operand& b, int64_t b_at,
              int64_t b_batch, int32_t* b_wide, int32_t* acc) {
  for (int64_t k = 0; k < p.k; ++k) {
    widen(b.view, b_at + k * p.n, p.n, 0, b_wide + k * p.n);
    for (int64_t j = 0; j < p.n; ++j) b_wide[k * p.n + j] -= b.zero.at(b_batch, j);
  }
  std::fill_n(acc, p.m * p.n, 0);
  std::vector<int32_t> row(static_cast<size_t>(p.k));
  for (int64_t i = 0; i < p.m; ++i) {
    widen(a.view, a_at + i * p.k, p.k, a.zero.at(a_batch, i), row.data());
    for (int64_t k = 0; k < p.k; ++k) {
      if (row[static_cast<size_t>(k)] != 0) {
        integer_axpy(acc + i * p.n, b_wide + k * p.n, row[static_cast<size_t>(k)], p.n);
      }
    }
  }
}

// Calls done(batch, a's batch, b's batch, acc) after each product.
template <typename Done>
void for_each_product(EvalContext& ctx, const Product& p, const Operand& a, const Operand& b, Done&& done) {
  auto* b_wide = static_cast<int32_t*>(ctx.scratch(static_cast<size_t>(std::max<int64_t>(1, p.k * p.n)) * 4));
  auto* acc = static_cast<int32_t*>(ctx.scratch(static_cast<size_t>(std::max<int64_t>(1, p.m * p.n)) * 4));
  const BroadcastPlan plan = make_broadcast_plan(p.batch, {&p.a_batch, &p.b_batch});
  for_each_row(plan, [&](int64_t out, const RowOffsets& at) {
    for (int64_t i = 0; i < plan.inner(); ++i) {
      const int64_t ba = at[0] + (plan.moves(0) ? i : 0);
      const int64_t bb = at[1] + (plan.moves(1) ? i : 0);
      multiply(p, a, ba * p.m * p.k, ba, b, bb * p.k * p.n, bb, b_wide, acc);
      done(out + i, ba, bb, acc);
    }
  });
}

void infer_matmul_integer(InferContext& ctx) {
  expect_8bit(ctx, "MatMulInteger", 0);
  expect_8bit(ctx, "MatMulInteger", 1);
  ctx.set_output(0, DType::INT32, infer_product(ctx, 0, 1));
}

void evaluate_matmul_integer(EvalContext& ctx) {
  const Product p = product_of(ctx.dims(0), ctx.dims(1));
  const Operand a{ctx.input(0), per_line(read_zero_points(ctx, 2), p.m, p.a_batch.count(), "a_zero_point")};
  const Operand b{ctx.input(1), per_line(read_zero_points(ctx, 3), p.n, p.b_batch.count(), "b_zero_point")};
  const TensorView out = ctx.output(0, DType::INT32, p.out);
  if (out.count() == 0) return;
  for_each_product(ctx, p, a, b, [&](int64_t batch, int64_t, int64_t, const int32_t* acc) {
    std::copy_n(acc, p.m * p.n, out.as<int32_t>() + batch * p.m * p.n);
  });
}

void infer_qlinear_matmul(InferContext& ctx) {
  for (int i : {0, 3, 7}) expect_8bit(ctx, "QLinearMatMul", i);
  expect_same_type(ctx, "QLinearMatMul", 2, 0);
  expect_same_type(ctx, "QLinearMatMul", 5, 3);
  ctx.set_output(0, ctx.dtype(7), infer_product(ctx, 0, 3));
}

void evaluate_qlinear_matmul(EvalContext& ctx) {
  const Product p = product_of(ctx.dims(0), ctx.dims(3));
  const int64_t na = p.a_batch.count();
  const int64_t nb = p.b_batch.count();
  const Operand a{ctx.input(0), per_line(read_zero_points(ctx, 2), p.m, na, "a_zero_point")};
  const Operand b{ctx.input(3), per_line(read_zero_points(ctx, 5), p.n, nb, "b_zero_point")};
  const PerLine<float> a_scale = per_line(read_scales(ctx, 1), p.m, na, "a_scale");
  const PerLine<float> b_scale = per_line(read_scales(ctx, 4), p.n, nb, "b_scale");
  const float y_scale = first_of(read_scales(ctx, 6), "y_scale");
  const int32_t y_zero = first_of(read_zero_points(ctx, 7), "y_zero_point");
  const TensorView out = ctx.output(0, ctx.dtype(7), p.out);
  if (out.count() == 0) return;
  for_each_product(ctx, p, a, b, [&](int64_t batch, int64_t ba, int64_t bb, const int32_t* acc) {
    uint8_t* y = out.as<uint8_t>() + batch * p.m * p.n;
    for (int64_t i = 0; i < p.m; ++i) {
      const float row_scale = a_scale.at(ba, i);
      if (b_scale.values.size() == 1) {
        const float multiplier = row_scale * b_scale.values[0] / y_scale;
        requantize(acc + i * p.n, p.n, multiplier, y_zero, out.dtype, y + i * p.n);
        continue;
      }
      for (int64_t j = 0; j < p.n; ++j) {
        const float multiplier = row_scale * b_scale.at(bb, j) / y_scale;
        requantize(acc + i * p.n + j, 1, multiplier, y_zero, out.dtype, y + i * p.n + j);
      }
    }
  });
}

}  // namespace

void add_integer_matmul_ops(OpRegistry& registry) {
  registry.add({.name = "MatMulInteger",
                .min_inputs = 2,
                .max_inputs = 4,
                .infer = infer_matmul_integer,
                .evaluate = evaluate_matmul_integer});
  registry.add({.name = "QLinearMatMul",
                .min_inputs = 8,
                .max_inputs = 8,
                .infer = infer_qlinear_matmul,
                .evaluate = evaluate_qlinear_matmul});
}

}  // namespace deepjit
