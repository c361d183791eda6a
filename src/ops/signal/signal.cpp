// DFT, STFT and MelWeightMatrix. A complex number is a last dimension of 2; a real signal has 1 there.
#include <algorithm>
#include <cmath>

#include "base/visit.h"
#include "ops/common.h"
#include "ops/index/sort.h"
#include "ops/signal/fft.h"

namespace deepjit {

namespace {

using Complex = Fft::Complex;

// The value of a scalar integer input when it is known as an expression.
std::optional<Dim> scalar_value(const InferContext& ctx, int i) {
  const std::vector<Dim>* values = known_values(ctx, i);
  if (values == nullptr || values->size() != 1) return std::nullopt;
  return values->front();
}

int64_t scalar_int(const EvalContext& ctx, int i, std::string_view what) {
  const std::vector<int64_t> values = ctx.ints(i);
  if (values.size() != 1) throw Error(Code::SHAPE_MISMATCH, std::string(what) + " must be one number");
  return values[0];
}

int64_t positive(int64_t value, std::string_view what) {
  if (value < 1) throw Error(Code::RUN_VALUE, std::string(what) + " must be positive, got " + std::to_string(value));
  return value;
}

int dft_axis(int64_t axis, int rank) {
  const int normal = normalize_axis(axis, rank, "DFT: axis");
  if (normal == rank - 1) throw Error(Code::ATTRIBUTE, "DFT: the last axis holds the complex parts");
  return normal;
}

void infer_dft(InferContext& ctx) {
  expect_compute_float(ctx, "DFT", 0);
  const Shape& in = ctx.shape(0);
  if (!in.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  const bool onesided = ctx.attrs().get_int("onesided", 0) != 0;
  const bool inverse = ctx.attrs().get_int("inverse", 0) != 0;
  const auto axis_values = ctx.has_input(2) ? ctx.constant_ints(2) : std::vector<int64_t>{-2};
  if (in.rank() < 2) throw Error(Code::SHAPE_MISMATCH, "DFT: expected rank 2 or more");
  Shape out = in;
  out[in.rank() - 1] = onesided && inverse ? 1 : 2;
  if (!axis_values || axis_values->size() != 1) {
    for (int i = 0; i + 1 < in.rank(); ++i) out[i] = ctx.fresh_dim();
    return ctx.set_output(0, ctx.dtype(0), std::move(out));
  }
  Dim& dim = out[dft_axis(axis_values->front(), in.rank())];
  if (ctx.has_input(1)) {
    const std::optional<Dim> length = scalar_value(ctx, 1);
    dim = length ? *length : ctx.fresh_dim();
  } else if (onesided && inverse) {
    dim = Dim(2) * (dim - 1);
  }
  if (onesided && !inverse) dim = floordiv(dim, Dim(2)) + 1;
  ctx.set_output(0, ctx.dtype(0), std::move(out));
}

struct DftPlan {
  AxisView view;    // over the input's axis; inner without the complex dimension
  int64_t parts;    // 1 or 2 numbers an element of the input
  int64_t length;   // of the transform
  int64_t outputs;  // elements written along the axis
  bool inverse;
  bool onesided;
};

// One line of the input, zero-padded or cut to the transform's length.
template <typename T>
void load_line(const DftPlan& plan, const T* in, int64_t stride, Complex* line) {
  const bool mirrored = plan.inverse && plan.onesided;
  const int64_t wanted = mirrored ? plan.length / 2 + 1 : plan.length;
  const int64_t n = std::min(plan.view.size, wanted);
  std::fill_n(line, plan.length, Complex());
  for (int64_t k = 0; k < n; ++k) {
    const T* p = in + k * stride * plan.parts;
    line[k] = Complex(static_cast<double>(static_cast<compute_t<T>>(p[0])),
                      plan.parts == 2 ? static_cast<double>(static_cast<compute_t<T>>(p[1])) : 0.0);
  }
  if (!mirrored) return;
  // Half a spectrum stands for a real signal: the other half is its conjugate.
  line[0] = line[0].real();
  if (plan.length % 2 == 0) line[plan.length / 2] = line[plan.length / 2].real();
  for (int64_t k = 1; k < (plan.length + 1) / 2; ++k) line[plan.length - k] = std::conj(line[k]);
}

template <typename T>
void run_dft(const DftPlan& plan, const T* in, T* out) {
  const Fft fft(plan.length, plan.inverse);
  std::vector<Complex> line(static_cast<size_t>(plan.length));
  std::vector<Complex> scratch(static_cast<size_t>(fft.scratch_size()));
  const int64_t out_parts = plan.inverse && plan.onesided ? 1 : 2;
  const double scale = plan.inverse ? 1.0 / static_cast<double>(plan.length) : 1.0;
  const AxisView& view = plan.view;
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      load_line(plan, in + (o * view.size * view.inner + i) * plan.parts, view.inner, line.data());
      fft.run(line.data(), scratch.data());
      T* to = out + (o * plan.outputs * view.inner + i) * out_parts;
      for (int64_t k = 0; k < plan.outputs; ++k, to += view.inner * out_parts) {
        const Complex value = line[static_cast<size_t>(k)] * scale;
        to[0] = static_cast<T>(static_cast<compute_t<T>>(value.real()));
        if (out_parts == 2) to[1] = static_cast<T>(static_cast<compute_t<T>>(value.imag()));
      }
    }
  }
}

void evaluate_dft(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int rank = in.dims.rank();
  const int axis = dft_axis(ctx.has_input(2) ? scalar_int(ctx, 2, "DFT: axis") : -2, rank);
  DftPlan plan{};
  plan.inverse = ctx.attrs().get_int("inverse", 0) != 0;
  plan.onesided = ctx.attrs().get_int("onesided", 0) != 0;
  plan.parts = in.dims.back();
  if (plan.parts != 1 && plan.parts != 2) throw Error(Code::SHAPE_MISMATCH, "DFT: the last dimension must be 1 or 2");
  Dims signal = in.dims;
  signal.erase(rank - 1);
  plan.view = axis_view(signal, axis);
  const int64_t default_length = plan.inverse && plan.onesided ? 2 * (plan.view.size - 1) : plan.view.size;
  plan.length = positive(ctx.has_input(1) ? scalar_int(ctx, 1, "DFT: dft_length") : default_length, "DFT: dft_length");
  plan.outputs = plan.onesided && !plan.inverse ? plan.length / 2 + 1 : plan.length;
  Dims dims = in.dims;
  dims[axis] = plan.outputs;
  dims.back() = plan.inverse && plan.onesided ? 1 : 2;
  const TensorView out = ctx.output(0, in.dtype, dims);
  visit_float(in.dtype, "DFT", [&]<typename T>() { run_dft<T>(plan, in.as<T>(), out.as<T>()); });
}

void infer_stft(InferContext& ctx) {
  expect_compute_float(ctx, "STFT", 0);
  const Shape& in = ctx.shape(0);
  if (in.ranked() && in.rank() != 3 && in.rank() != 2) {
    throw Error(Code::SHAPE_MISMATCH, "STFT: the signal must be [batch, length, 1 or 2], got " + in.to_string());
  }
  std::optional<Dim> length = scalar_value(ctx, 3);
  if (!ctx.has_input(3)) {
    const int from = ctx.has_input(2) ? 2 : 0;
    const Shape& source = ctx.shape(from);
    if (source.ranked() && source.rank() > (from == 2 ? 0 : 1)) length = source[from == 2 ? 0 : 1];
  }
  const std::optional<Dim> step = scalar_value(ctx, 1);
  const bool onesided = ctx.attrs().get_int("onesided", 1) != 0;
  const Dim batch = in.ranked() ? in[0] : ctx.fresh_dim();
  Dim frames = ctx.fresh_dim();
  if (in.ranked() && length && step && step->is_const() && step->value() > 0) {
    frames = max(floordiv(in[1] - *length, *step) + 1, Dim(0));
  }
  Dim bins = ctx.fresh_dim();
  if (length) bins = onesided ? floordiv(*length, Dim(2)) + 1 : *length;
  ctx.set_output(0, ctx.dtype(0), Shape({batch, frames, bins, Dim(2)}));
}

struct StftPlan {
  int64_t batch, signal_length, parts, step, frames, length, window_length, bins;
};

template <typename T>
void run_stft(const StftPlan& plan, const T* signal, const T* window, T* out) {
  const Fft fft(plan.length, false);
  std::vector<Complex> line(static_cast<size_t>(plan.length));
  std::vector<Complex> scratch(static_cast<size_t>(fft.scratch_size()));
  const int64_t used = std::min(plan.length, plan.window_length);
  std::vector<double> weight(static_cast<size_t>(used), 1.0);
  for (int64_t k = 0; window != nullptr && k < used; ++k) {
    weight[static_cast<size_t>(k)] = static_cast<double>(static_cast<compute_t<T>>(window[k]));
  }
  for (int64_t b = 0; b < plan.batch; ++b) {
    for (int64_t f = 0; f < plan.frames; ++f) {
      const int64_t begin = f * plan.step;
      const int64_t n = std::min(used, plan.signal_length - begin);
      const T* from = signal + (b * plan.signal_length + begin) * plan.parts;
      std::fill(line.begin(), line.end(), Complex());
      for (int64_t k = 0; k < n; ++k) {
        const auto re = static_cast<double>(static_cast<compute_t<T>>(from[k * plan.parts]));
        const auto im = plan.parts == 2 ? static_cast<double>(static_cast<compute_t<T>>(from[k * 2 + 1])) : 0.0;
        line[static_cast<size_t>(k)] = Complex(re, im) * weight[static_cast<size_t>(k)];
      }
      fft.run(line.data(), scratch.data());
      for (int64_t k = 0; k < plan.bins; ++k) {
        *out++ = static_cast<T>(static_cast<compute_t<T>>(line[static_cast<size_t>(k)].real()));
        *out++ = static_cast<T>(static_cast<compute_t<T>>(line[static_cast<size_t>(k)].imag()));
      }
    }
  }
}

void evaluate_stft(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  StftPlan plan{};
  plan.batch = in.dims[0];
  plan.signal_length = in.dims[1];
  plan.parts = in.dims.rank() == 3 ? in.dims[2] : 1;
  if (plan.parts != 1 && plan.parts != 2) throw Error(Code::SHAPE_MISMATCH, "STFT: the last dimension must be 1 or 2");
  plan.step = positive(scalar_int(ctx, 1, "STFT: frame_step"), "STFT: frame_step");
  const int64_t default_length = ctx.has_input(2) ? ctx.input(2).count() : plan.signal_length;
  plan.length = ctx.has_input(3) ? scalar_int(ctx, 3, "STFT: frame_length") : default_length;
  positive(plan.length, "STFT: frame_length");
  plan.window_length = ctx.has_input(2) ? ctx.input(2).count() : plan.length;
  plan.frames = plan.signal_length < plan.length ? 0 : (plan.signal_length - plan.length) / plan.step + 1;
  plan.bins = ctx.attrs().get_int("onesided", 1) != 0 ? plan.length / 2 + 1 : plan.length;
  const TensorView out = ctx.output(0, in.dtype, {plan.batch, plan.frames, plan.bins, 2});
  visit_float(in.dtype, "STFT", [&]<typename T>() {
    run_stft<T>(plan, in.as<T>(), ctx.has_input(2) ? ctx.data<T>(2) : nullptr, out.as<T>());
  });
}

void infer_mel(InferContext& ctx) {
  const std::optional<Dim> bins = scalar_value(ctx, 0);
  const std::optional<Dim> length = scalar_value(ctx, 1);
  const Dim rows = length ? floordiv(*length, Dim(2)) + 1 : ctx.fresh_dim();
  const Dim columns = bins ? *bins : ctx.fresh_dim();
  ctx.set_output(0, dtype_attribute(ctx.attrs(), "output_datatype", DType::FLOAT32), Shape({rows, columns}));
}

double scalar_float(const EvalContext& ctx, int i) {
  const std::vector<double> values = to_f64(ctx.input(i));
  if (values.size() != 1) throw Error(Code::SHAPE_MISMATCH, "MelWeightMatrix: the inputs must be single numbers");
  return values[0];
}

// The spectrum bin where each triangle starts, peaks and ends.
std::vector<int64_t> mel_edges(const EvalContext& ctx, int64_t bands, int64_t length) {
  const auto rate = static_cast<double>(positive(scalar_int(ctx, 2, "sample_rate"), "MelWeightMatrix: sample_rate"));
  const double low = 2595 * std::log10(1 + scalar_float(ctx, 3) / 700);
  const double high = 2595 * std::log10(1 + scalar_float(ctx, 4) / 700);
  const double step = (high - low) / static_cast<double>(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10.0, (static_cast<double>(i) * step + low) / 2595) - 1);
    const double bin = std::floor(static_cast<double>(length + 1) * hertz / rate);
    if (!(bin >= 0 && bin <= static_cast<double>(length / 2))) {
      throw Error(Code::RUN_VALUE, "MelWeightMatrix: the band edges leave the spectrum",
                  "upper_edge_hertz must be at most half the sample rate");
    }
    edges.push_back(static_cast<int64_t>(bin));
  }
  return edges;
}

void evaluate_mel(EvalContext& ctx) {
  const int64_t bands = positive(scalar_int(ctx, 0, "num_mel_bins"), "MelWeightMatrix: num_mel_bins");
  const int64_t length = positive(scalar_int(ctx, 1, "dft_length"), "MelWeightMatrix: dft_length");
  const DType dtype = dtype_attribute(ctx.attrs(), "output_datatype", DType::FLOAT32);
  const std::vector<int64_t> edges = mel_edges(ctx, bands, length);
  const TensorView out = ctx.output(0, dtype, {length / 2 + 1, bands});
  visit_numeric(dtype, "MelWeightMatrix", [&]<typename T>() {
    const auto value = [](double v) { return static_cast<T>(static_cast<compute_t<T>>(v)); };
    std::fill_n(out.as<T>(), out.count(), value(0));
    for (int64_t i = 0; i < bands; ++i) {
      const int64_t low = edges[static_cast<size_t>(i)];
      const int64_t center = edges[static_cast<size_t>(i) + 1];
      const int64_t high = edges[static_cast<size_t>(i) + 2];
      T* column = out.as<T>() + i;
      if (low == center) column[center * bands] = value(1);
      for (int64_t j = low; j <= center && low < center; ++j) {
        column[j * bands] = value(static_cast<double>(j - low) / static_cast<double>(center - low));
      }
      for (int64_t j = center; j < high; ++j) {
        column[j * bands] = value(static_cast<double>(high - j) / static_cast<double>(high - center));
      }
    }
  });
}

}  // namespace

void add_signal_ops(OpRegistry& registry) {
  registry.add({.name = "DFT",
                .min_inputs = 1,
                .max_inputs = 3,
                .infer = infer_dft,
                .evaluate = evaluate_dft,
                .shape_inputs = {1, 2}});
  registry.add({.name = "STFT",
                .min_inputs = 2,
                .max_inputs = 4,
                .infer = infer_stft,
                .evaluate = evaluate_stft,
                .shape_inputs = {1, 3}});
  registry.add({.name = "MelWeightMatrix",
                .min_inputs = 5,
                .max_inputs = 5,
                .infer = infer_mel,
                .evaluate = evaluate_mel,
                .shape_inputs = {0, 1}});
}

}  // namespace deepjit
