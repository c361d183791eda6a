// Cast, CastLike and BitCast.
//
// Elements pass through one of three wide types (float, double, int64) in small blocks: a reader for each
// source type and a writer for each target type, instead of one loop for each pair.
#include "ops/pointwise/cast.h"

#include <algorithm>

#include "ops/pointwise/convert.h"
#include "ops/pointwise/pointwise.h"

namespace deepjit {

namespace {

constexpr int64_t kBlock = 512;

// double to float so that a second rounding to a narrower type is still right: inexact values get an odd
// last bit.
float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (!(static_cast<double>(nearest) != x) || x != x) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const double back = static_cast<double>(nearest);
  const bool away = x < 0 ? back < x : back > x;
  if (away) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1u);
}

template <typename To, typename W>
To convert(W x) {
  if constexpr (std::is_same_v<To, float16> || std::is_same_v<To, bfloat16>) {
    if constexpr (std::is_same_v<W, double>) return To(round_to_odd(x));
    return To(static_cast<float>(x));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<W>) {
    return float_to_int<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename To, typename W>
void write_as(const W* in, void* out, int64_t n) {
  map_unary(static_cast<To*>(out), in, n, [](W x) { return convert<To>(x); });
}

template <typename W>
void write_small(const W* in, DType to, void* out, int64_t n, CastRounding rounding) {
  auto* bytes = static_cast<uint8_t*>(out);
  const bool to_float = is_small_float(to);
  for (int64_t i = 0; i < n; ++i) {
    if (to == DType::BOOL) {
      bytes[i] = in[i] != 0;  // true for NaN and for denormals
    } else if (to_float) {
      const float x = std::is_same_v<W, double> ? round_to_odd(static_cast<double>(in[i])) : static_cast<float>(in[i]);
      bytes[i] = float_to_small_float(to, x, rounding.saturate, rounding.e8m0);
    } else {
      bytes[i] = packed_element(to, static_cast<uint8_t>(convert<int32_t>(in[i])));
    }
  }
}

// n elements of a wide type to `to`.
template <typename W>
void write_block(const W* in, DType to, void* out, int64_t n, CastRounding rounding) {
  if (to == DType::BOOL || is_packed(to) || is_small_float(to)) return write_small(in, to, out, n, rounding);
  visit_numeric(to, "Cast", [&]<typename To>() { write_as<To>(in, out, n); });
}

// n elements of `from` to the wide type W.
template <typename W>
void read_block(DType from, const void* in, W* out, int64_t n) {
  const auto* bytes = static_cast<const uint8_t*>(in);
  if (from == DType::BOOL) {
    for (int64_t i = 0; i < n; ++i) out[i] = bytes[i] != 0;
  } else if (is_small_float(from)) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<W>(small_float_to_float(from, bytes[i]));
  } else {
    visit_numeric(from, "Cast", [&]<typename From>() {
      const From* typed = static_cast<const From*>(in);
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<W>(load_as_compute(typed[i]));
    });
  }
}

template <typename W>
void cast_through(const TensorView& in, const TensorView& out, DType wide, CastRounding rounding) {
  const int64_t total = in.count();
  if (in.dtype == wide) return write_block(in.as<W>(), out.dtype, out.data, total, rounding);
  const size_t in_size = dtype_size(in.dtype);
  const size_t out_size = dtype_size(out.dtype);
  W block[kBlock];
  for (int64_t start = 0; start < total; start += kBlock) {
    const int64_t n = std::min(kBlock, total - start);
    read_block(in.dtype, in.as<char>() + static_cast<size_t>(start) * in_size, block, n);
    write_block(block, out.dtype, out.as<char>() + static_cast<size_t>(start) * out_size, n, rounding);
  }
}

void expect_castable(DType dtype) {
  if (dtype != DType::STRING && dtype_size(dtype) == 0) {
    throw Error(Code::TYPE, "Cast: element type " + std::string(dtype_name(dtype)) + " is not supported");
  }
}

}  // namespace

void cast_elements(const TensorView& in, const TensorView& out, CastRounding rounding) {
  if (in.dtype == out.dtype) return copy_elements(in, out);
  if (in.dtype == DType::STRING) return parse_numbers(in, out, rounding);
  if (out.dtype == DType::STRING) return print_numbers(in, out);
  if (in.dtype == DType::FLOAT64) return cast_through<double>(in, out, DType::FLOAT64, rounding);
  if (is_float(in.dtype)) return cast_through<float>(in, out, DType::FLOAT32, rounding);
  if (in.dtype == DType::UINT64) return cast_through<uint64_t>(in, out, DType::UINT64, rounding);
  cast_through<int64_t>(in, out, DType::INT64, rounding);
}

namespace {

DType target_type(const Attributes& attrs) {
  attrs.require_int("to");
  return dtype_attribute(attrs, "to", DType::UNDEFINED);
}

CastRounding rounding_of(const Attributes& attrs) {
  const std::string mode = attrs.get_string("round_mode", "up");
  const bool saturate = attrs.get_int("saturate", 1) != 0;
  if (mode == "up") return {saturate, E8m0Round::UP};
  if (mode == "down") return {saturate, E8m0Round::DOWN};
  if (mode == "nearest") return {saturate, E8m0Round::NEAREST};
  throw Error(Code::ATTRIBUTE, "Cast: round_mode must be up, down or nearest, got \"" + mode + "\"");
}

// Integer values survive a cast to a type that holds them.
void forward_cast_values(InferContext& ctx, DType to) {
  const std::vector<Dim>* values = known_values(ctx, 0);
  if (values == nullptr || (to != DType::INT64 && to != DType::INT32 && to != DType::BOOL)) return;
  std::vector<Dim> out;
  for (const Dim& v : *values) {
    if (to == DType::BOOL && !v.is_const()) return;
    if (to == DType::INT32 && v.is_const() && v.value() != static_cast<int32_t>(v.value())) return;
    out.push_back(to == DType::BOOL ? Dim(v.value() != 0) : v);
  }
  ctx.set_output_values(0, std::move(out));
}

void infer_cast_to(InferContext& ctx, DType to) {
  expect_castable(ctx.dtype(0));
  expect_castable(to);
  rounding_of(ctx.attrs());
  ctx.set_output(0, to, ctx.shape(0));
  forward_cast_values(ctx, to);
}

void infer_cast(InferContext& ctx) { infer_cast_to(ctx, target_type(ctx.attrs())); }
void infer_cast_like(InferContext& ctx) { infer_cast_to(ctx, ctx.dtype(1)); }

void evaluate_cast_to(EvalContext& ctx, DType to) {
  cast_elements(ctx.input(0), ctx.output(0, to, ctx.dims(0)), rounding_of(ctx.attrs()));
}

void evaluate_cast(EvalContext& ctx) { evaluate_cast_to(ctx, target_type(ctx.attrs())); }
void evaluate_cast_like(EvalContext& ctx) { evaluate_cast_to(ctx, ctx.dtype(1)); }

void infer_bit_cast(InferContext& ctx) {
  const DType to = target_type(ctx.attrs());
  const DType from = ctx.dtype(0);
  if (dtype_bits(from) == 0 || dtype_bits(from) != dtype_bits(to)) {
    throw Error(Code::TYPE, "BitCast: " + std::string(dtype_name(from)) + " and " + std::string(dtype_name(to)) +
                                " differ in size");
  }
  ctx.set_output(0, to, ctx.shape(0));
}

void evaluate_bit_cast(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const TensorView out = ctx.output(0, target_type(ctx.attrs()), in.dims);
  if (out.data != in.data && in.count() > 0) std::memcpy(out.data, in.data, static_cast<size_t>(in.bytes()));
  if (!is_packed(out.dtype)) return;
  auto* bytes = out.as<uint8_t>();
  for (int64_t i = 0; i < in.count(); ++i) bytes[i] = packed_element(out.dtype, bytes[i]);
}

}  // namespace

void add_cast_ops(OpRegistry& registry) {
  registry.add({.name = "Cast", .infer = infer_cast, .evaluate = evaluate_cast, .pointwise = true});
  registry.add({.name = "CastLike",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_cast_like,
                .evaluate = evaluate_cast_like,
                .pointwise = true});
  registry.add({.name = "BitCast", .infer = infer_bit_cast, .evaluate = evaluate_bit_cast, .pointwise = true});
}

}  // namespace deepjit
