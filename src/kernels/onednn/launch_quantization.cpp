#include <algorithm>

#include "kernels/onednn/quantization.h"

namespace deepjit::onednn {

namespace {

Tensor flip_sign(const Tensor& from) {
  Tensor to(from.dtype(), from.dims());
  const auto* x = from.as<uint8_t>();
  std::transform(x, x + from.count(), to.as<uint8_t>(), [](uint8_t v) { return static_cast<uint8_t>(v ^ 0x80); });
  return to;
}

}  // namespace

const WeightsTransform kFlippedWeights = {"flip/", flip_sign, flip_sign};

std::optional<IntegerWeights> integer_weights(const StepShape& shape, int input, int zero_point_input) {
  IntegerWeights w{input};
  w.flipped = in(shape, input).dtype == DType::UINT8;
  int64_t zero = 0;
  if (has_input(shape, zero_point_input)) {
    const Tensor* data = constant_data(shape, zero_point_input);
    if (data == nullptr || data->count() == 0) return std::nullopt;
    const std::vector<int64_t> values = data->to_i64();
    if (std::any_of(values.begin(), values.end(), [&](int64_t v) { return v != values[0]; })) return std::nullopt;
    zero = values[0];
  }
  w.zero_point = static_cast<int32_t>(w.flipped ? zero - 128 : zero);
  return w;
}

std::optional<std::vector<float>> multipliers(const StepShape& shape, int x_scale, int w_scale, int y_scale) {
  const Tensor *x = constant_data(shape, x_scale), *w = constant_data(shape, w_scale),
               *y = constant_data(shape, y_scale);
  if (x == nullptr || w == nullptr || y == nullptr || x->count() != 1 || y->count() != 1) return std::nullopt;
  if (x->dtype() != DType::FLOAT32 || w->dtype() != DType::FLOAT32 || y->dtype() != DType::FLOAT32) return std::nullopt;
  std::vector<float> result;
  for (int64_t i = 0; i < w->count(); ++i) {
    result.push_back(x->as<float>()[0] * w->as<float>()[i] / y->as<float>()[0]);
  }
  return result;
}

ZeroPoint zero_point(const StepShape& shape, int input) {
  ZeroPoint zero;
  if (!has_input(shape, input)) return zero;
  if (in(shape, input).count() != 1) {
    zero.reason = "a zero point per row";
    return zero;
  }
  const Tensor* data = constant_data(shape, input);
  zero.input = input;
  zero.zero = data != nullptr && data->to_i64()[0] == 0;
  return zero;
}

int zero_point_slot(PrimitiveKernel& kernel, const StepShape& shape, const ZeroPoint& zero) {
  if (const Tensor* data = constant_data(shape, zero.input)) {
    return constant_ints(kernel, {static_cast<int32_t>(data->to_i64()[0])});
  }
  const int given = kernel.input(zero.input, plain_desc(in(shape, zero.input).dtype, Dims{1}));
  return kernel.reordered(given, plain_desc(DType::INT32, Dims{1}));
}

int constant_ints(PrimitiveKernel& kernel, const std::vector<int32_t>& values) {
  const Dims dims{static_cast<int64_t>(values.size())};
  return kernel.constant(plain_desc(DType::INT32, dims), Tensor::from<int32_t>(DType::INT32, dims, values));
}

int constant_floats(PrimitiveKernel& kernel, const std::vector<float>& values) {
  const Dims dims{static_cast<int64_t>(values.size())};
  return kernel.constant(plain_desc(DType::FLOAT32, dims), Tensor::from<float>(DType::FLOAT32, dims, values));
}

}  // namespace deepjit::onednn
