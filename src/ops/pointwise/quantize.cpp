// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.
#include "ops/pointwise/quantize.h"

#include <algorithm>

#include "base/small_types.h"
#include "ops/pointwise/cast.h"
#include "ops/pointwise/convert.h"
#include "ops/pointwise/pointwise.h"
#include "ops/scalar.h"

namespace deepjit {

// ---- shared ---------------------------------------------------------------------------------------

std::vector<float> read_scales(const EvalContext& ctx, int i) {
  std::vector<float> out(static_cast<size_t>(ctx.input(i).count()));
  cast_elements(ctx.input(i), {DType::FLOAT32, ctx.dims(i), out.data()});
  return out;
}

std::vector<int32_t> read_zero_points(const EvalContext& ctx, int i, int64_t count) {
  if (!ctx.has_input(i)) return std::vector<int32_t>(static_cast<size_t>(count), 0);
  std::vector<int32_t> out(static_cast<size_t>(ctx.input(i).count()));
  cast_elements(ctx.input(i), {DType::INT32, ctx.dims(i), out.data()});
  return out;
}

QuantRange quant_range(DType dtype) {
  if (!is_integer(dtype) || dtype_bits(dtype) > 16) {
    throw Error(Code::TYPE, "quantization to " + std::string(dtype_name(dtype)) + " is not supported");
  }
  const IntegerRange range = integer_range(dtype);
  return {static_cast<float>(range.low), static_cast<float>(range.high)};
}

void requantize(const int32_t* in, int64_t n, float multiplier, int32_t zero_point, DType dtype, void* out) {
  const QuantRange range = quant_range(dtype);
  const auto offset = static_cast<float>(zero_point);
  visit_integer(dtype, "requantize", [&]<typename T>() {
    map_unary(static_cast<T*>(out), in, n, [=](int32_t v) {
      return static_cast<T>(static_cast<int32_t>(quantize_value(static_cast<float>(v) * multiplier, offset, range)));
    });
  });
}

void widen(const TensorView& in, int64_t start, int64_t n, int32_t zero_point, int32_t* out) {
  if (in.dtype == DType::INT8) {
    map_unary(out, in.as<int8_t>() + start, n, [=](int8_t v) { return v - zero_point; });
  } else {
    map_unary(out, in.as<uint8_t>() + start, n, [=](uint8_t v) { return v - zero_point; });
  }
}

namespace {

[[gnu::always_inline]] inline void axpy_loop(int32_t* out, const int32_t* in, int32_t x, int64_t n) {
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) {
    out[j] =
        static_cast<int32_t>(static_cast<uint32_t>(out[j]) + static_cast<uint32_t>(x) * static_cast<uint32_t>(in[j]));
  }
}
[[gnu::target("avx2"), gnu::noinline]] void axpy_wide(int32_t* out, const int32_t* in, int32_t x, int64_t n) {
  axpy_loop(out, in, x, n);
}

}  // namespace

void integer_axpy(int32_t* out, const int32_t* in, int32_t x, int64_t n) {
  if (cpu_has_avx2()) return axpy_wide(out, in, x, n);
  axpy_loop(out, in, x, n);
}

void expect_8bit(const InferContext& ctx, std::string_view op, int i) {
  const DType dtype = ctx.dtype(i);
  expect_type(ctx, op, i, dtype == DType::INT8 || dtype == DType::UINT8, "int8 or uint8");
}

namespace {

// ---- where each element finds its scale -----------------------------------------------------------

// x is walked in rows of `n` elements; row r uses scales from `scale` on, `step` (0 or 1) apart.
struct ScaleLayout {
  int64_t outer = 1, axis = 1, inner = 1;  // x as [outer, axis, inner]
  int64_t block = 0;                       // > 0: one scale a block of this many along the axis
  bool per_tensor = true;
};

// Blocks of a size that may be anything above 0.
int64_t blocks_of(int64_t count, int64_t block) { return count / block + (count % block != 0 ? 1 : 0); }

ScaleLayout scale_layout(const EvalContext& ctx, const std::string& op) {
  const Dims& x = ctx.dims(0);
  const Dims& scale = ctx.dims(1);
  const int64_t block = ctx.attrs().get_int("block_size", 0);
  ScaleLayout out;
  if (scale.rank() == 0 || (block == 0 && scale.count() == 1)) {
    if (ctx.has_input(2)) expect_elements(ctx, 2, 1, op + ": zero point");
    out.inner = x.count();
    return out;
  }
  const int axis = normalize_axis(ctx.attrs().get_int("axis", 1), x.rank(), op + " axis");
  for (int i = 0; i < x.rank(); ++i) (i < axis ? out.outer : i == axis ? out.axis : out.inner) *= x[i];
  out.per_tensor = false;
  out.block = block;
  Dims expected = x;
  if (block > 0) expected[axis] = blocks_of(x[axis], block);
  const bool fits = block > 0 ? scale == expected : scale.rank() == 1 && scale[0] == x[axis];
  if (!fits) {
    throw Error(Code::SHAPE_MISMATCH, op + ": scale " + scale.to_string() + " does not fit input " + x.to_string() +
                                          " along axis " + std::to_string(axis));
  }
  if (ctx.has_input(2) && ctx.dims(2) != scale) {
    throw Error(Code::SHAPE_MISMATCH,
                op + ": zero point " + ctx.dims(2).to_string() + " does not fit scale " + scale.to_string());
  }
  return out;
}

// row(first element, count, first scale, scale step)
template <typename Row>
void for_each_scale_row(const ScaleLayout& l, Row&& row) {
  if (l.outer == 0 || l.axis == 0 || l.inner == 0) return;
  if (l.per_tensor) return row(0, l.inner, 0, 0);
  const int64_t blocks = l.block > 0 ? blocks_of(l.axis, l.block) : 0;
  for (int64_t o = 0; o < l.outer; ++o) {
    if (l.block == 0 && l.inner == 1) {
      row(o * l.axis, l.axis, 0, 1);
      continue;
    }
    for (int64_t a = 0; a < l.axis; ++a) {
      const int64_t at = (o * l.axis + a) * l.inner;
      if (l.block > 0)
        row(at, l.inner, (o * blocks + a / l.block) * l.inner, 1);
      else
        row(at, l.inner, a, 0);
    }
  }
}

void infer_scales(InferContext& ctx, const std::string& op) {
  const Shape& x = ctx.shape(0);
  const Shape& scale = ctx.shape(1);
  if (!x.ranked() || !scale.ranked() || scale.rank() != 1 || scale[0] == 1 || x.rank() == 0) return;
  if (ctx.attrs().get_int("block_size", 0) != 0) return;
  const int axis = normalize_axis(ctx.attrs().get_int("axis", 1), x.rank(), op + " axis");
  if (scale[0].is_const() && x[axis].is_const() && !(scale[0] == x[axis])) {
    throw Error(Code::SHAPE_MISMATCH, op + ": scale " + scale.to_string() + " does not fit input " + x.to_string() +
                                          " along axis " + std::to_string(axis));
  }
}

// ---- QuantizeLinear -------------------------------------------------------------------------------

// E8M0 is a type of scales only.
bool quantizes_to_float(DType dtype) { return is_small_float(dtype) && dtype != DType::FLOAT8E8M0; }

void expect_scale(const InferContext& ctx, const char* op, bool ok) {
  expect_type(ctx, op, 1, ok || ctx.dtype(1) == DType::FLOAT8E8M0, "a tensor of scales");
}

DType quantized_type(const Attributes& attrs, std::optional<DType> zero_point) {
  return dtype_attribute(attrs, "output_dtype", zero_point.value_or(DType::UINT8));
}

void infer_quantize(InferContext& ctx) {
  expect_type(ctx, "QuantizeLinear", 0, is_compute_float(ctx.dtype(0)) || ctx.dtype(0) == DType::INT32,
              "floating-point or int32");
  const DType to = quantized_type(ctx.attrs(), ctx.has_input(2) ? std::optional(ctx.dtype(2)) : std::nullopt);
  if (ctx.has_input(2) && ctx.dtype(2) != to) {
    throw Error(Code::TYPE, "QuantizeLinear: output_dtype differs from the zero point's type");
  }
  if (!quantizes_to_float(to)) quant_range(to);
  expect_scale(ctx, "QuantizeLinear", is_compute_float(ctx.dtype(1)) || ctx.dtype(1) == DType::INT32);
  infer_scales(ctx, "QuantizeLinear");
  ctx.set_output(0, to, ctx.shape(0));
}

template <typename T>
void quantize_row(const float* x, int64_t n, const float* scale, const float* zero, int64_t step, QuantRange range,
                  T* out) {
  const auto one = [range](float v, float s, float z) {
    return static_cast<T>(float_to_int<int32_t>(quantize_value(v / s, z, range)));
  };
  if (step == 0) {
    const float s = *scale;
    const float z = *zero;
    return map_unary(out, x, n, [=](float v) { return one(v, s, z); });
  }
  for (int64_t i = 0; i < n; ++i) out[i] = one(x[i], scale[i], zero[i]);
}

void quantize_row_float(const float* x, int64_t n, const float* scale, int64_t step, DType to, bool saturate,
                        uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = float_to_small_float(to, x[i] / scale[i * step], saturate);
}

// Input i as floats: the memory itself where it is float32.
const float* read_as_float(EvalContext& ctx, int i) {
  if (ctx.dtype(i) == DType::FLOAT32) return ctx.data<float>(i);
  auto* out = static_cast<float*>(ctx.scratch(static_cast<size_t>(ctx.input(i).count()) * sizeof(float)));
  cast_elements(ctx.input(i), {DType::FLOAT32, ctx.dims(i), out});
  return out;
}

void evaluate_quantize(EvalContext& ctx) {
  const DType to = quantized_type(ctx.attrs(), ctx.has_input(2) ? std::optional(ctx.dtype(2)) : std::nullopt);
  const ScaleLayout layout = scale_layout(ctx, "QuantizeLinear");
  const float* x = read_as_float(ctx, 0);
  const std::vector<float> scales = read_scales(ctx, 1);
  const TensorView out = ctx.output(0, to, ctx.dims(0));
  if (quantizes_to_float(to)) {
    const bool saturate = ctx.attrs().get_int("saturate", 1) != 0;
    return for_each_scale_row(layout, [&](int64_t at, int64_t n, int64_t s, int64_t step) {
      quantize_row_float(x + at, n, scales.data() + s, step, to, saturate, out.as<uint8_t>() + at);
    });
  }
  const std::vector<int32_t> zeros = read_zero_points(ctx, 2, static_cast<int64_t>(scales.size()));
  const std::vector<float> offsets(zeros.begin(), zeros.end());
  const QuantRange range = quant_range(to);
  visit_integer(to, "QuantizeLinear", [&]<typename T>() {
    for_each_scale_row(layout, [&](int64_t at, int64_t n, int64_t s, int64_t step) {
      quantize_row(x + at, n, scales.data() + s, offsets.data() + s, step, range, out.as<T>() + at);
    });
  });
}

// ---- DequantizeLinear -----------------------------------------------------------------------------

DType dequantized_type(const Attributes& attrs, DType scale) { return dtype_attribute(attrs, "output_dtype", scale); }

void infer_dequantize(InferContext& ctx) {
  const DType from = ctx.dtype(0);
  if (from != DType::INT32 && !quantizes_to_float(from)) quant_range(from);
  if (ctx.has_input(2)) expect_same_type(ctx, "DequantizeLinear", 2, 0);
  expect_scale(ctx, "DequantizeLinear", is_compute_float(ctx.dtype(1)));
  const DType to = dequantized_type(ctx.attrs(), ctx.dtype(1));
  if (!is_compute_float(to)) {
    throw Error(Code::TYPE, "DequantizeLinear: the output would be " + std::string(dtype_name(to)),
                "set output_dtype to a floating-point type");
  }
  infer_scales(ctx, "DequantizeLinear");
  ctx.set_output(0, to, ctx.shape(0));
}

template <typename T, typename Out>
void dequantize_row(const T* x, int64_t n, const float* scale, const int32_t* zero, int64_t step, Out* out) {
  using W = std::conditional_t<sizeof(T) == 4, int64_t, int32_t>;  // the difference of two int32 needs more
  if (step == 0) {
    const float s = *scale;
    const W z = *zero;
    return map_unary(out, x, n, [=](T v) { return static_cast<float>(static_cast<W>(v) - z) * s; });
  }
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<Out>(static_cast<float>(static_cast<W>(x[i]) - static_cast<W>(zero[i])) * scale[i]);
  }
}

void dequantize_float(EvalContext& ctx, const ScaleLayout& layout, const TensorView& out) {
  std::array<float, 256> table;
  for (size_t i = 0; i < 256; ++i) table[i] = small_float_to_float(ctx.dtype(0), static_cast<uint8_t>(i));
  const std::vector<float> scales = read_scales(ctx, 1);
  const std::vector<float> zeros = ctx.has_input(2) ? read_scales(ctx, 2) : std::vector<float>(scales.size(), 0.0f);
  const uint8_t* x = ctx.data<uint8_t>(0);
  visit_float(out.dtype, "DequantizeLinear", [&]<typename Out>() {
    for_each_scale_row(layout, [&](int64_t at, int64_t n, int64_t s, int64_t step) {
      for (int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<size_t>(s + i * step);
        const float value = (table[x[at + i]] - zeros[k]) * scales[k];
        out.as<Out>()[at + i] = static_cast<Out>(static_cast<compute_t<Out>>(value));
      }
    });
  });
}

void evaluate_dequantize(EvalContext& ctx) {
  const ScaleLayout layout = scale_layout(ctx, "DequantizeLinear");
  const DType to = dequantized_type(ctx.attrs(), ctx.dtype(1));
  const TensorView out = ctx.output(0, to, ctx.dims(0));
  if (is_small_float(ctx.dtype(0))) return dequantize_float(ctx, layout, out);
  const std::vector<float> scales = read_scales(ctx, 1);
  const std::vector<int32_t> zeros = read_zero_points(ctx, 2, static_cast<int64_t>(scales.size()));
  visit_integer(ctx.dtype(0), "DequantizeLinear", [&]<typename T>() {
    visit_float(to, "DequantizeLinear", [&]<typename Out>() {
      for_each_scale_row(layout, [&](int64_t at, int64_t n, int64_t s, int64_t step) {
        dequantize_row(ctx.data<T>(0) + at, n, scales.data() + s, zeros.data() + s, step, out.as<Out>() + at);
      });
    });
  });
}

// ---- DynamicQuantizeLinear ------------------------------------------------------------------------

void infer_dynamic_quantize(InferContext& ctx) {
  expect_type(ctx, "DynamicQuantizeLinear", 0, ctx.dtype(0) == DType::FLOAT32, "float32");
  ctx.set_output(0, DType::UINT8, ctx.shape(0));
  ctx.set_output(1, DType::FLOAT32, Shape(std::vector<Dim>{}));
  ctx.set_output(2, DType::UINT8, Shape(std::vector<Dim>{}));
}

// The scale and zero point that just hold n floats and 0.
DynamicQuantization dynamic_range(const float* x, int64_t n) {
  float low = 0;
  float high = 0;
  for (int64_t i = 0; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  const float scale = high == low ? 1.0f : (high - low) / 255.0f;
  const float zero = quantize_value(-low / scale, 0, quant_range(DType::UINT8));
  return {scale, static_cast<int32_t>(zero)};
}

void evaluate_dynamic_quantize(EvalContext& ctx) {
  const float* x = ctx.data<float>(0);
  const int64_t n = ctx.input(0).count();
  DynamicQuantization q;
  if (ctx.has_output(0)) {
    q = quantize_dynamically(x, n, ctx.output(0, DType::UINT8, ctx.dims(0)).as<uint8_t>());
  } else {
    q = dynamic_range(x, n);
  }
  if (ctx.has_output(1)) *ctx.output(1, DType::FLOAT32, {}).as<float>() = q.scale;
  if (ctx.has_output(2)) *ctx.output(2, DType::UINT8, {}).as<uint8_t>() = static_cast<uint8_t>(q.zero_point);
}

}  // namespace

DynamicQuantization quantize_dynamically(const float* x, int64_t n, uint8_t* out) {
  const DynamicQuantization q = dynamic_range(x, n);
  const auto zero = static_cast<float>(q.zero_point);
  quantize_row(x, n, &q.scale, &zero, 0, quant_range(DType::UINT8), out);
  return q;
}

void add_quantize_ops(OpRegistry& registry) {
  registry.add({.name = "QuantizeLinear",
                .min_inputs = 2,
                .max_inputs = 3,
                .infer = infer_quantize,
                .evaluate = evaluate_quantize});
  registry.add({.name = "DequantizeLinear",
                .min_inputs = 2,
                .max_inputs = 3,
                .infer = infer_dequantize,
                .evaluate = evaluate_dequantize});
  registry.add({.name = "DynamicQuantizeLinear",
                .min_outputs = 3,
                .max_outputs = 3,
                .infer = infer_dynamic_quantize,
                .evaluate = evaluate_dynamic_quantize});
  add_integer_matmul_ops(registry);
  add_integer_conv_ops(registry);
}

}  // namespace deepjit
