#include "ops/nn/rnn_quantized.h"

#include <algorithm>

#include "ops/linear/compute_buffer.h"
#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/quantize.h"

namespace deepjit {

namespace {

constexpr int64_t kRows = 4;  // rows that share a read of the weights

// sums[r] = x[r] . w for `rows` (up to kRows) rows of x.
template <typename W>
[[gnu::always_inline]] inline void dot_loop(const int16_t* x, int64_t rows, const W* w, int64_t depth, int32_t* sums) {
  for (int64_t r = 0; r < rows; ++r) {
    const int16_t* row = x + r * depth;
    int32_t sum = 0;
    for (int64_t k = 0; k < depth; ++k) sum += static_cast<int32_t>(row[k]) * static_cast<int16_t>(w[k]);
    sums[r] = sum;
  }
}
template <typename W>
[[gnu::target("avx2"), gnu::noinline]] void dot_wide(const int16_t* x, int64_t rows, const W* w, int64_t depth,
                                                     int32_t* sums) {
  dot_loop(x, rows, w, depth, sums);
}
template <typename W>
void dot(const int16_t* x, int64_t rows, const W* w, int64_t depth, int32_t* sums) {
  if (cpu_has_avx2()) return dot_wide(x, rows, w, depth, sums);
  dot_loop(x, rows, w, depth, sums);
}

int32_t sum_of(const int16_t* x, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

// The product of up to kRows rows; their values have the scale x_scale.
template <typename W>
void multiply(const int16_t* x, int64_t rows, float x_scale, const QuantizedWeights& w, float* out, bool add) {
  int32_t row_sums[kRows], sums[kRows];
  for (int64_t r = 0; r < rows; ++r) row_sums[r] = sum_of(x + r * w.depth, w.depth);
  const W* data = static_cast<const W*>(w.data);
  for (int64_t c = 0; c < w.columns; ++c) {
    dot(x, rows, data + c * w.depth, w.depth, sums);
    const float scale = x_scale * w.scales[w.per_column ? c : 0];
    const int32_t zero = w.zeros[w.per_column ? c : 0];
    for (int64_t r = 0; r < rows; ++r) {
      const float y = static_cast<float>(sums[r] - zero * row_sums[r]) * scale;
      float& to = out[r * w.columns + c];
      to = add ? to + y : y;
    }
  }
}

}  // namespace

DynamicProduct::DynamicProduct(EvalContext& ctx, int64_t values)
    : bytes_(scratch_array<uint8_t>(ctx, values)), centred_(scratch_array<int16_t>(ctx, values)) {}

void DynamicProduct::run(const float* x, int64_t rows, const QuantizedWeights& w, float* out, bool add) {
  const int64_t count = rows * w.depth;
  const DynamicQuantization q = quantize_dynamically(x, count, bytes_);
  for (int64_t i = 0; i < count; ++i) centred_[i] = static_cast<int16_t>(bytes_[i] - q.zero_point);
  for (int64_t r = 0; r < rows; r += kRows) {
    const int64_t n = std::min(kRows, rows - r);
    if (w.dtype == DType::INT8) {
      multiply<int8_t>(centred_ + r * w.depth, n, q.scale, w, out + r * w.columns, add);
    } else {
      multiply<uint8_t>(centred_ + r * w.depth, n, q.scale, w, out + r * w.columns, add);
    }
  }
}

std::vector<QuantizedWeights> quantized_weights(EvalContext& ctx, int weights, int scale, std::vector<float>& scales,
                                                std::vector<int32_t>& zeros) {
  const Dims& dims = ctx.dims(weights);
  scales = read_scales(ctx, scale);
  const int64_t directions = dims[0], each = directions == 0 ? 0 : static_cast<int64_t>(scales.size()) / directions;
  if (ctx.dims(scale).rank() < 1 || ctx.dims(scale)[0] != directions || (each != 1 && each != dims[1])) {
    throw Error(Code::SHAPE_MISMATCH,
                "scales of shape " + ctx.dims(scale).to_string() + " do not fit weights " + dims.to_string());
  }
  zeros = read_zero_points(ctx, scale + 1, static_cast<int64_t>(scales.size()));
  if (zeros.size() != scales.size()) throw Error(Code::SHAPE_MISMATCH, "zero points differ from scales in shape");
  std::vector<QuantizedWeights> out;
  for (int64_t d = 0; d < directions; ++d) {
    QuantizedWeights w;
    w.dtype = ctx.dtype(weights);
    w.columns = dims[1];
    w.depth = dims[2];
    w.data = ctx.data<uint8_t>(weights) + d * dims[1] * dims[2];
    w.scales = scales.data() + d * each;
    w.zeros = zeros.data() + d * each;
    w.per_column = each > 1;
    out.push_back(w);
  }
  return out;
}

}  // namespace deepjit
