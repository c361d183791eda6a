// Random tensors. With a `seed` attribute every run gives the same values; without, runs differ.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <numbers>
#include <random>

#include "base/visit.h"
#include "ops/common.h"
#include "ops/pointwise/cast.h"

namespace deepjit {

namespace {

// SplitMix64: a counter pushed through a mixing function.
class Generator {
 public:
  explicit Generator(const Attributes& attrs) {
    if (attrs.has("seed")) {
      state_ = std::bit_cast<uint32_t>(attrs.get_float("seed", 0)) * 0x9e3779b97f4a7c15u;
    } else {
      static const uint64_t base = (uint64_t{std::random_device()()} << 32) | std::random_device()();
      static std::atomic<uint64_t> calls{0};
      state_ = base + (calls.fetch_add(1) << 40);
    }
  }

  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // Normal with mean 0 and deviation 1 (Box-Muller; half of each pair is dropped to stay simple).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t state_ = 0;
};

enum class Kind { NORMAL, UNIFORM };

template <typename F>
void fill(const TensorView& out, std::string_view op, F&& sample) {
  visit_float(out.dtype, op, [&]<typename T>() {
    for (int64_t i = 0; i < out.count(); ++i) {
      out.as<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(sample()));
    }
  });
}

void fill_random(const Attributes& attrs, Kind kind, const TensorView& out) {
  Generator generator(attrs);
  if (kind == Kind::NORMAL) {
    const double mean = attrs.get_float("mean", 0);
    const double scale = attrs.get_float("scale", 1);
    return fill(out, "RandomNormal", [&] { return mean + scale * generator.normal(); });
  }
  const double low = attrs.get_float("low", 0);
  const double high = attrs.get_float("high", 1);
  fill(out, "RandomUniform", [&] { return low + (high - low) * generator.uniform(); });
}

Dims shape_attribute(const Attributes& attrs) {
  if (!attrs.has("shape")) throw Error(Code::ATTRIBUTE, "attribute \"shape\" is required");
  const std::vector<int64_t> dims = attrs.get_ints("shape");
  for (int64_t d : dims) {
    if (d < 0) throw Error(Code::ATTRIBUTE, "attribute \"shape\" has the negative dim " + std::to_string(d));
  }
  return Dims(dims);
}

DType float_type(const Attributes& attrs, DType fallback, const std::string& op) {
  const DType dtype = dtype_attribute(attrs, "dtype", fallback);
  if (!is_compute_float(dtype)) {
    throw Error(Code::TYPE, op + ": element type " + std::string(dtype_name(dtype)) + " is not a floating-point type");
  }
  return dtype;
}

OpDef random_op(std::string name, Kind kind) {
  auto infer = [name](InferContext& ctx) {
    ctx.set_output(0, float_type(ctx.attrs(), DType::FLOAT32, name), Shape(shape_attribute(ctx.attrs())));
  };
  auto evaluate = [name, kind](EvalContext& ctx) {
    const DType dtype = float_type(ctx.attrs(), DType::FLOAT32, name);
    fill_random(ctx.attrs(), kind, ctx.output(0, dtype, shape_attribute(ctx.attrs())));
  };
  return {.name = name, .min_inputs = 0, .max_inputs = 0, .infer = infer, .evaluate = evaluate, .deterministic = false};
}

OpDef random_like_op(std::string name, Kind kind) {
  auto infer = [name](InferContext& ctx) {
    ctx.set_output(0, float_type(ctx.attrs(), ctx.dtype(0), name), ctx.shape(0));
  };
  auto evaluate = [name, kind](EvalContext& ctx) {
    fill_random(ctx.attrs(), kind, ctx.output(0, float_type(ctx.attrs(), ctx.dtype(0), name), ctx.dims(0)));
  };
  return {.name = name, .infer = infer, .evaluate = evaluate, .deterministic = false};
}

// ---- Bernoulli, Multinomial -----------------------------------------------------------------------

void infer_bernoulli(InferContext& ctx) {
  expect_compute_float(ctx, "Bernoulli", 0);
  ctx.set_output(0, dtype_attribute(ctx.attrs(), "dtype", ctx.dtype(0)), ctx.shape(0));
}

void evaluate_bernoulli(EvalContext& ctx) {
  Generator generator(ctx.attrs());
  const std::vector<double> p = to_f64(ctx.input(0));
  std::vector<uint8_t> draws(p.size());
  for (size_t i = 0; i < p.size(); ++i) draws[i] = generator.uniform() < p[i];
  const DType dtype = dtype_attribute(ctx.attrs(), "dtype", ctx.dtype(0));
  cast_elements({DType::BOOL, ctx.dims(0), draws.data()}, ctx.output(0, dtype, ctx.dims(0)));
}

DType multinomial_type(const Attributes& attrs) {
  const DType dtype = dtype_attribute(attrs, "dtype", DType::INT32);
  if (dtype != DType::INT32 && dtype != DType::INT64) {
    throw Error(Code::ATTRIBUTE, "Multinomial: dtype must be int32 or int64");
  }
  return dtype;
}

int64_t sample_size(const Attributes& attrs) {
  const int64_t n = attrs.get_int("sample_size", 1);
  if (n < 0) throw Error(Code::ATTRIBUTE, "Multinomial: sample_size must not be negative");
  return n;
}

void infer_multinomial(InferContext& ctx) {
  expect_compute_float(ctx, "Multinomial", 0);
  const Shape& input = ctx.shape(0);
  if (input.ranked() && input.rank() != 2) {
    throw Error(Code::SHAPE_MISMATCH, "Multinomial: the input must be a matrix, got " + input.to_string());
  }
  const Dim batch = input.ranked() ? input[0] : ctx.fresh_dim();
  ctx.set_output(0, multinomial_type(ctx.attrs()), Shape({batch, Dim(sample_size(ctx.attrs()))}));
}

// The class that a uniform number falls into; `cumulative` are the running sums of the weights.
int64_t pick(const std::vector<double>& cumulative, double u) {
  const auto it = std::upper_bound(cumulative.begin(), cumulative.end(), u * cumulative.back());
  return std::min<int64_t>(it - cumulative.begin(), static_cast<int64_t>(cumulative.size()) - 1);
}

void evaluate_multinomial(EvalContext& ctx) {
  Generator generator(ctx.attrs());
  const int64_t batch = ctx.dims(0)[0];
  const int64_t classes = ctx.dims(0)[1];
  const int64_t samples = sample_size(ctx.attrs());
  const std::vector<double> logits = to_f64(ctx.input(0));
  if (classes == 0 && batch * samples > 0) throw Error(Code::SHAPE_MISMATCH, "Multinomial: there are no classes");
  const TensorView out = ctx.output(0, multinomial_type(ctx.attrs()), Dims{batch, samples});
  std::vector<int64_t> drawn;
  for (int64_t b = 0; b < batch && samples > 0; ++b) {
    const double* row = logits.data() + b * classes;
    const double top = *std::max_element(row, row + classes);
    std::vector<double> cumulative;
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) cumulative.push_back(sum += std::exp(row[c] - top));
    for (int64_t s = 0; s < samples; ++s) drawn.push_back(pick(cumulative, generator.uniform()));
  }
  cast_elements({DType::INT64, out.dims, drawn.data()}, out);
}

}  // namespace

void add_random_ops(OpRegistry& registry) {
  registry.add(random_op("RandomNormal", Kind::NORMAL));
  registry.add(random_op("RandomUniform", Kind::UNIFORM));
  registry.add(random_like_op("RandomNormalLike", Kind::NORMAL));
  registry.add(random_like_op("RandomUniformLike", Kind::UNIFORM));
  registry.add({.name = "Bernoulli", .infer = infer_bernoulli, .evaluate = evaluate_bernoulli, .deterministic = false});
  registry.add(
      {.name = "Multinomial", .infer = infer_multinomial, .evaluate = evaluate_multinomial, .deterministic = false});
}

}  // namespace deepjit
