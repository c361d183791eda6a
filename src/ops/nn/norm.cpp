// BatchNormalization, InstanceNormalization, GroupNormalization, LpNormalization, MeanVarianceNormalization, LRN.
// Means and variances are summed in double, within the range of the type that the op computes in.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/nn/norm_families.h"
#include "ops/reduce/float_sum.h"

namespace deepjit {

namespace {

struct Moments {
  double mean = 0, variance = 0;
};

template <typename C>
Moments moments_of(const C* x, int64_t n) {
  Moments m;
  for (int64_t i = 0; i < n; ++i) m.mean += x[i];
  m.mean = sum_in_range<C>(m.mean) / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) m.variance += (x[i] - m.mean) * (x[i] - m.mean);
  m.variance = sum_in_range<C>(m.variance) / static_cast<double>(n);
  return m;
}

// X as batch x channels x positions.
struct Planes {
  int64_t batch, channels, positions;
};

Planes planes_of(const Dims& x) {
  return {x.empty() ? 1 : x[0], x.rank() > 1 ? x[1] : 1, x.rank() > 2 ? dims_product(x, 2, x.rank()) : 1};
}

// Mean and variance of every channel over batch and positions.
template <typename C>
void channel_moments(const Planes& p, const C* x, C* mean, C* variance) {
  const double count = static_cast<double>(p.batch * p.positions);
  for (int64_t c = 0; c < p.channels; ++c) {
    double sum = 0, squares = 0;
    for (int64_t n = 0; n < p.batch; ++n) {
      const C* in = x + (n * p.channels + c) * p.positions;
      for (int64_t i = 0; i < p.positions; ++i) sum += in[i];
    }
    const double center = sum_in_range<C>(sum) / count;
    for (int64_t n = 0; n < p.batch; ++n) {
      const C* in = x + (n * p.channels + c) * p.positions;
      for (int64_t i = 0; i < p.positions; ++i) squares += (in[i] - center) * (in[i] - center);
    }
    mean[c] = static_cast<C>(center);
    variance[c] = static_cast<C>(sum_in_range<C>(squares) / count);
  }
}

template <typename C>
void write_running(EvalContext& ctx, int output, int input, const C* current, int64_t channels) {
  if (!ctx.has_output(output)) return;
  const C momentum = ctx.attrs().get_float("momentum", 0.9f);
  const C* old = read_compute<C>(ctx, input);
  ComputeOutput<C> out(ctx, output, ctx.dtype(input), {channels});
  for (int64_t c = 0; c < channels; ++c) out.data()[c] = old[c] * momentum + current[c] * (C(1) - momentum);
  out.finish();
}

template <typename C>
void batch_norm(EvalContext& ctx) {
  const Planes p = planes_of(ctx.dims(0));
  const C* x = read_compute<C>(ctx, 0);
  const C* scale = read_compute<C>(ctx, 1);
  const C* bias = read_compute<C>(ctx, 2);
  const C* mean = read_compute<C>(ctx, 3);
  const C* variance = read_compute<C>(ctx, 4);
  if (ctx.attrs().get_int("training_mode", 0) != 0) {
    C* batch_mean = scratch_array<C>(ctx, p.channels);
    C* batch_variance = scratch_array<C>(ctx, p.channels);
    channel_moments(p, x, batch_mean, batch_variance);
    mean = batch_mean;
    variance = batch_variance;
    write_running(ctx, 1, 3, mean, p.channels);
    write_running(ctx, 2, 4, variance, p.channels);
  }
  const C epsilon = ctx.attrs().get_float("epsilon", 1e-5f);
  ComputeOutput<C> out(ctx, 0, ctx.dtype(0), ctx.dims(0));
  C* y = out.data();
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t c = 0; c < p.channels; ++c, x += p.positions, y += p.positions) {
      const C factor = scale[c] / std::sqrt(variance[c] + epsilon);
      const C offset = bias[c] - mean[c] * factor;
      for (int64_t i = 0; i < p.positions; ++i) y[i] = x[i] * factor + offset;
    }
  }
  out.finish();
}

void evaluate_batch_norm(EvalContext& ctx) {
  visit_compute(ctx.dtype(0), "BatchNormalization", [&]<typename C>() { batch_norm<C>(ctx); });
}

void infer_batch_norm(InferContext& ctx) {
  expect_compute_float(ctx, "BatchNormalization", 0);
  const Shape& x = ctx.shape(0);
  Dim channels = x.ranked() ? (x.rank() > 1 ? x[1] : Dim(1)) : ctx.fresh_dim();
  const char* names[] = {"", "scale", "B", "input_mean", "input_var"};
  for (int i = 1; i < 5; ++i) {
    if (x.ranked()) expect_vector(ctx, i, channels, names[i]);
    // A vector of known length settles an unknown channel count.
    if (!channels.is_const() && ctx.shape(i).ranked() && ctx.shape(i).rank() == 1) channels = ctx.shape(i)[0];
  }
  ctx.set_output(0, ctx.dtype(0), x);
  const bool training = ctx.attrs().get_int("training_mode", 0) != 0;
  if (!training && ctx.num_outputs() > 1) {
    throw Error(Code::ARITY, "BatchNormalization has more than one output only in training mode");
  }
  for (int i = 1; i < ctx.num_outputs(); ++i) ctx.set_output(i, ctx.dtype(2 + i), Shape({channels}));
}

// Instance normalization is group normalization with one channel a group.
void normalize_groups(EvalContext& ctx, int64_t groups) {
  const Planes p = planes_of(ctx.dims(0));
  visit_compute(ctx.dtype(0), "normalization", [&]<typename C>() {
    const C epsilon = ctx.attrs().get_float("epsilon", 1e-5f);
    const C* x = read_compute<C>(ctx, 0);
    const C* scale = read_compute<C>(ctx, 1);
    const C* bias = read_compute<C>(ctx, 2);
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), ctx.dims(0));
    C* y = out.data();
    const int64_t group_channels = groups == 0 ? 0 : p.channels / groups;
    const int64_t size = group_channels * p.positions;
    for (int64_t n = 0; n < p.batch; ++n) {
      for (int64_t g = 0; g < groups; ++g, x += size, y += size) {
        const Moments m = moments_of(x, size);
        const C inverse = static_cast<C>(1.0 / std::sqrt(m.variance + epsilon));
        const C mean = static_cast<C>(m.mean);
        for (int64_t c = 0; c < group_channels; ++c) {
          const C factor = scale[g * group_channels + c] * inverse;
          const C offset = bias[g * group_channels + c];
          for (int64_t i = c * p.positions; i < (c + 1) * p.positions; ++i) y[i] = (x[i] - mean) * factor + offset;
        }
      }
    }
    out.finish();
  });
}

void evaluate_instance_norm(EvalContext& ctx) { normalize_groups(ctx, planes_of(ctx.dims(0)).channels); }
void evaluate_group_norm(EvalContext& ctx) { normalize_groups(ctx, ctx.attrs().require_int("num_groups")); }

void infer_channel_norm(InferContext& ctx) {
  expect_compute_float(ctx, "normalization", 0);
  const Shape& x = ctx.shape(0);
  if (x.ranked()) {
    if (x.rank() < 2) throw Error(Code::SHAPE_MISMATCH, "the input " + x.to_string() + " has no channels");
    expect_vector(ctx, 1, x[1], "scale");
    expect_vector(ctx, 2, x[1], "the bias");
  }
  ctx.set_output(0, ctx.dtype(0), x);
}

void infer_group_norm(InferContext& ctx) {
  const int64_t groups = ctx.attrs().require_int("num_groups");
  if (groups < 1) throw Error(Code::ATTRIBUTE, "num_groups is " + std::to_string(groups));
  infer_channel_norm(ctx);
  const Shape& x = ctx.shape(0);
  if (x.ranked() && x[1].is_const() && x[1].value() % groups != 0) {
    throw Error(Code::SHAPE_MISMATCH,
                x[1].to_string() + " channels do not split into " + std::to_string(groups) + " groups");
  }
}

void evaluate_lp_norm(EvalContext& ctx) {
  const Dims& x = ctx.dims(0);
  const int axis = normalize_axis(ctx.attrs().get_int("axis", -1), x.rank());
  const int64_t p = ctx.attrs().get_int("p", 2);
  const int64_t outer = dims_product(x, 0, axis), n = x[axis], inner = dims_product(x, axis + 1, x.rank());
  visit_compute(ctx.dtype(0), "LpNormalization", [&]<typename C>() {
    const C* in = read_compute<C>(ctx, 0);
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), x);
    for (int64_t i = 0; i < outer * inner; ++i) {
      const int64_t base = (inner == 0 ? 0 : i / inner * n * inner + i % inner);
      double sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        const double value = in[base + k * inner];
        sum += p == 1 ? std::fabs(value) : value * value;
      }
      sum = sum_in_range<C>(sum);
      const C norm = static_cast<C>(p == 1 ? sum : std::sqrt(sum));
      for (int64_t k = 0; k < n; ++k) {
        out.data()[base + k * inner] = norm == C(0) ? C(0) : in[base + k * inner] / norm;
      }
    }
    out.finish();
  });
}

void infer_lp_norm(InferContext& ctx) {
  expect_compute_float(ctx, "LpNormalization", 0);
  const int64_t p = ctx.attrs().get_int("p", 2);
  if (p != 1 && p != 2) throw Error(Code::ATTRIBUTE, "LpNormalization: p is " + std::to_string(p) + ", not 1 or 2");
  if (ctx.shape(0).ranked()) normalize_axis(ctx.attrs().get_int("axis", -1), ctx.shape(0).rank());
  ctx.set_output(0, ctx.dtype(0), ctx.shape(0));
}

// For every element the number of its statistic: a row-major count over the dims that are not reduced.
std::vector<int64_t> statistic_strides(const Dims& x, const std::vector<int64_t>& axes, int64_t& statistics) {
  std::vector<int64_t> strides(x.size(), 0);
  std::vector<bool> reduced(x.size(), false);
  for (int64_t axis : axes) reduced[static_cast<size_t>(normalize_axis(axis, x.rank(), "axes"))] = true;
  statistics = 1;
  for (size_t d = x.size(); d-- > 0;) {
    if (reduced[d]) continue;
    strides[d] = statistics;
    statistics *= x[static_cast<int>(d)];
  }
  return strides;
}

// Calls f(element, statistic) for all elements in order.
template <typename F>
void for_each_statistic(const Dims& x, const std::vector<int64_t>& strides, F f) {
  Dims index = Dims::filled(x.rank(), 0);
  const int64_t count = x.count();
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    f(i, at);
    for (int d = x.rank() - 1; d >= 0; --d) {
      at += strides[static_cast<size_t>(d)];
      if (++index[d] < x[d]) break;
      at -= strides[static_cast<size_t>(d)] * x[d];
      index[d] = 0;
    }
  }
}

void evaluate_mean_variance(EvalContext& ctx) {
  const Dims& x = ctx.dims(0);
  int64_t statistics = 1;
  const std::vector<int64_t> strides = statistic_strides(x, ctx.attrs().get_ints("axes", {0, 2, 3}), statistics);
  visit_compute(ctx.dtype(0), "MeanVarianceNormalization", [&]<typename C>() {
    const C* in = read_compute<C>(ctx, 0);
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), x);
    double* mean = scratch_array<double>(ctx, statistics);
    double* deviation = scratch_array<double>(ctx, statistics);
    std::fill_n(mean, statistics, 0.0);
    std::fill_n(deviation, statistics, 0.0);
    const double each = statistics == 0 ? 1 : static_cast<double>(x.count()) / static_cast<double>(statistics);
    for_each_statistic(x, strides, [&](int64_t i, int64_t s) { mean[s] += in[i]; });
    for (int64_t s = 0; s < statistics; ++s) mean[s] = sum_in_range<C>(mean[s]) / each;
    for_each_statistic(x, strides,
                       [&](int64_t i, int64_t s) { deviation[s] += (in[i] - mean[s]) * (in[i] - mean[s]); });
    for (int64_t s = 0; s < statistics; ++s) deviation[s] = std::sqrt(sum_in_range<C>(deviation[s]) / each) + 1e-9;
    for_each_statistic(x, strides,
                       [&](int64_t i, int64_t s) { out.data()[i] = static_cast<C>((in[i] - mean[s]) / deviation[s]); });
    out.finish();
  });
}

void infer_mean_variance(InferContext& ctx) {
  expect_compute_float(ctx, "MeanVarianceNormalization", 0);
  if (ctx.shape(0).ranked()) {
    for (int64_t axis : ctx.attrs().get_ints("axes", {0, 2, 3})) normalize_axis(axis, ctx.shape(0).rank(), "axes");
  }
  ctx.set_output(0, ctx.dtype(0), ctx.shape(0));
}

void evaluate_lrn(EvalContext& ctx) {
  const Planes p = planes_of(ctx.dims(0));
  const int64_t size = ctx.attrs().require_int("size");
  visit_compute(ctx.dtype(0), "LRN", [&]<typename C>() {
    const C alpha = ctx.attrs().get_float("alpha", 1e-4f), beta = ctx.attrs().get_float("beta", 0.75f);
    const C bias = ctx.attrs().get_float("bias", 1.0f);
    const C* x = read_compute<C>(ctx, 0);
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), ctx.dims(0));
    C* y = out.data();
    const int64_t image = p.channels * p.positions;
    for (int64_t n = 0; n < p.batch; ++n, x += image, y += image) {
      for (int64_t c = 0; c < p.channels; ++c) {
        const int64_t first = std::max<int64_t>(0, c - (size - 1) / 2);
        const int64_t last = std::min(p.channels - 1, c + size / 2);
        C* sums = y + c * p.positions;
        std::fill_n(sums, p.positions, C(0));
        for (int64_t k = first; k <= last; ++k) {
          const C* other = x + k * p.positions;
          for (int64_t i = 0; i < p.positions; ++i) sums[i] += other[i] * other[i];
        }
        const C* own = x + c * p.positions;
        for (int64_t i = 0; i < p.positions; ++i) {
          sums[i] = own[i] / std::pow(bias + alpha / static_cast<C>(size) * sums[i], beta);
        }
      }
    }
    out.finish();
  });
}

void infer_lrn(InferContext& ctx) {
  expect_compute_float(ctx, "LRN", 0);
  if (ctx.attrs().require_int("size") < 1) throw Error(Code::ATTRIBUTE, "LRN: size must be positive");
  if (ctx.shape(0).ranked() && ctx.shape(0).rank() < 2) throw Error(Code::SHAPE_MISMATCH, "LRN needs channels");
  ctx.set_output(0, ctx.dtype(0), ctx.shape(0));
}

}  // namespace

void add_norm_ops(OpRegistry& registry) {
  registry.add({.name = "BatchNormalization",
                .min_inputs = 5,
                .max_inputs = 5,
                .max_outputs = 3,
                .infer = infer_batch_norm,
                .evaluate = evaluate_batch_norm});
  registry.add({.name = "InstanceNormalization",
                .min_inputs = 3,
                .max_inputs = 3,
                .infer = infer_channel_norm,
                .evaluate = evaluate_instance_norm});
  registry.add({.name = "GroupNormalization",
                .min_inputs = 3,
                .max_inputs = 3,
                .infer = infer_group_norm,
                .evaluate = evaluate_group_norm});
  registry.add({.name = "LpNormalization", .infer = infer_lp_norm, .evaluate = evaluate_lp_norm});
  registry.add({.name = "MeanVarianceNormalization", .infer = infer_mean_variance, .evaluate = evaluate_mean_variance});
  registry.add({.name = "LRN", .infer = infer_lrn, .evaluate = evaluate_lrn});
  add_layer_norm_ops(registry);
  add_softmax_ops(registry);
}

}  // namespace deepjit
