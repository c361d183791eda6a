// Losses over a class axis (axis 1): input [N, C, d1, ...], target [N, d1, ...]. Sums are kept in double.
#include <algorithm>
#include <cmath>

#include "base/visit.h"
#include "ops/common.h"

namespace deepjit {

namespace {

enum class Reduction { NONE, SUM, MEAN };

Reduction reduction_of(const Attributes& attrs) {
  const std::string name = attrs.get_string("reduction", "mean");
  if (name == "none") return Reduction::NONE;
  if (name == "sum") return Reduction::SUM;
  if (name == "mean") return Reduction::MEAN;
  throw Error(Code::ATTRIBUTE, "reduction must be none, sum or mean, got \"" + name + "\"");
}

void infer_loss(InferContext& ctx, std::string_view op) {
  expect_compute_float(ctx, op, 0);
  expect_integer(ctx, op, 1);
  const Shape& scores = ctx.shape(0);
  const Shape& target = ctx.shape(1);
  if (scores.ranked() && scores.rank() < 2) {
    throw Error(Code::SHAPE_MISMATCH, std::string(op) + ": the input needs a class axis, got " + scores.to_string());
  }
  if (scores.ranked() && target.ranked()) {
    std::vector<Dim> expected = scores.dims();
    expected.erase(expected.begin() + 1);
    bool fits = expected.size() == target.dims().size();
    for (size_t i = 0; fits && i < expected.size(); ++i) {
      const Dim& t = target.dims()[i];
      fits = !expected[i].is_const() || !t.is_const() || expected[i] == t;
    }
    if (!fits) {
      throw Error(Code::SHAPE_MISMATCH,
                  std::string(op) + ": target " + target.to_string() + " does not fit input " + scores.to_string());
    }
  }
  const bool keeps_shape = reduction_of(ctx.attrs()) == Reduction::NONE;
  ctx.set_output(0, ctx.dtype(0), keeps_shape ? target : Shape(std::vector<Dim>{}));
}

struct LossDims {
  int64_t batch, classes, inner;
};

LossDims loss_dims(const EvalContext& ctx) {
  LossDims d{ctx.dims(0)[0], ctx.dims(0)[1], 1};
  for (int i = 2; i < ctx.dims(0).rank(); ++i) d.inner *= ctx.dims(0)[i];
  return d;
}

// The loss from log-probabilities. log_prob(n, c, i) gives one of them as double.
template <typename T, typename LogProb>
void reduce_loss(EvalContext& ctx, const LossDims& d, LogProb&& log_prob) {
  const std::vector<int64_t> target = ctx.ints(1);
  const std::vector<double> weights = ctx.has_input(2) ? to_f64(ctx.input(2)) : std::vector<double>();
  if (!weights.empty() && static_cast<int64_t>(weights.size()) != d.classes) {
    throw Error(Code::SHAPE_MISMATCH, "the weight must have one element a class");
  }
  const bool ignores = ctx.attrs().has("ignore_index");
  const int64_t ignored = ctx.attrs().get_int("ignore_index", 0);
  const Reduction reduction = reduction_of(ctx.attrs());
  const TensorView out = ctx.output(0, ctx.dtype(0), reduction == Reduction::NONE ? ctx.dims(1) : Dims{});
  double sum = 0;
  double total_weight = 0;
  for (int64_t k = 0; k < d.batch * d.inner; ++k) {
    const int64_t c = target[static_cast<size_t>(k)];
    double loss = 0;
    if (!ignores || c != ignored) {
      if (c < 0 || c >= d.classes) {
        throw Error(Code::INDEX_RANGE, "target class " + std::to_string(c) + " is out of range for " +
                                           std::to_string(d.classes) + " classes");
      }
      const double weight = weights.empty() ? 1.0 : weights[static_cast<size_t>(c)];
      loss = -weight * log_prob(k / d.inner, c, k % d.inner);
      total_weight += weight;
    }
    sum += loss;
    if (reduction == Reduction::NONE) out.as<T>()[k] = static_cast<T>(static_cast<compute_t<T>>(loss));
  }
  if (reduction == Reduction::NONE) return;
  const double result = reduction == Reduction::MEAN ? sum / total_weight : sum;
  *out.as<T>() = static_cast<T>(static_cast<compute_t<T>>(result));
}

void infer_nll(InferContext& ctx) { infer_loss(ctx, "NegativeLogLikelihoodLoss"); }

void evaluate_nll(EvalContext& ctx) {
  const LossDims d = loss_dims(ctx);
  visit_float(ctx.dtype(0), "NegativeLogLikelihoodLoss", [&]<typename T>() {
    const T* x = ctx.data<T>(0);
    reduce_loss<T>(ctx, d, [&](int64_t n, int64_t c, int64_t i) {
      return static_cast<double>(load_as_compute(x[(n * d.classes + c) * d.inner + i]));
    });
  });
}

void infer_softmax_cross_entropy(InferContext& ctx) {
  infer_loss(ctx, "SoftmaxCrossEntropyLoss");
  if (ctx.num_outputs() > 1) ctx.set_output(1, ctx.input(0));
}

// log(softmax(x)) over the class axis.
template <typename T>
std::vector<double> log_softmax(const T* x, const LossDims& d) {
  std::vector<double> out(static_cast<size_t>(d.batch * d.classes * d.inner));
  for (int64_t n = 0; n < d.batch; ++n) {
    for (int64_t i = 0; i < d.inner; ++i) {
      const auto at = [&](int64_t c) { return static_cast<size_t>((n * d.classes + c) * d.inner + i); };
      const auto value = [&](int64_t c) { return static_cast<double>(load_as_compute(x[at(c)])); };
      double top = -INFINITY;
      for (int64_t c = 0; c < d.classes; ++c) top = std::max(top, value(c));
      double sum = 0;
      for (int64_t c = 0; c < d.classes; ++c) sum += std::exp(value(c) - top);
      for (int64_t c = 0; c < d.classes; ++c) out[at(c)] = value(c) - top - std::log(sum);
    }
  }
  return out;
}

void evaluate_softmax_cross_entropy(EvalContext& ctx) {
  const LossDims d = loss_dims(ctx);
  visit_float(ctx.dtype(0), "SoftmaxCrossEntropyLoss", [&]<typename T>() {
    const std::vector<double> log_prob = log_softmax(ctx.data<T>(0), d);
    if (ctx.has_output(1)) {
      T* out = ctx.output(1, ctx.dtype(0), ctx.dims(0)).template as<T>();
      for (size_t k = 0; k < log_prob.size(); ++k) out[k] = static_cast<T>(static_cast<compute_t<T>>(log_prob[k]));
    }
    if (!ctx.has_output(0)) return;
    reduce_loss<T>(ctx, d, [&](int64_t n, int64_t c, int64_t i) {
      return log_prob[static_cast<size_t>((n * d.classes + c) * d.inner + i)];
    });
  });
}

}  // namespace

void add_loss_ops(OpRegistry& registry) {
  registry.add({.name = "NegativeLogLikelihoodLoss",
                .min_inputs = 2,
                .max_inputs = 3,
                .infer = infer_nll,
                .evaluate = evaluate_nll});
  registry.add({.name = "SoftmaxCrossEntropyLoss",
                .min_inputs = 2,
                .max_inputs = 3,
                .max_outputs = 2,
                .infer = infer_softmax_cross_entropy,
                .evaluate = evaluate_softmax_cross_entropy});
}

}  // namespace deepjit
