#include "passes/fusion/channel_affine.h"

#include <algorithm>
#include <cmath>

#include "passes/edit.h"

namespace deepjit {

bool ChannelAffine::has_shift() const {
  return std::any_of(shift.begin(), shift.end(), [](double v) { return v != 0; });
}

bool ChannelAffine::has_scale() const {
  return std::any_of(scale.begin(), scale.end(), [](double v) { return v != 1; });
}

std::optional<std::vector<double>> per_channel(const Value* value, int rank, int axis, int64_t channels) {
  if (value == nullptr || !value->is_constant() || !is_float(value->constant.dtype()) ||
      dtype_size(value->constant.dtype()) < 2) {
    return std::nullopt;
  }
  const Dims& dims = value->constant.dims();
  if (dims.rank() > rank) return std::nullopt;
  for (int i = 0; i < dims.rank(); ++i) {
    const bool channel = i + rank - dims.rank() == axis;
    if (dims[i] != 1 && !(channel && dims[i] == channels)) return std::nullopt;
  }
  std::vector<double> out = value->constant.to_f64();
  if (out.size() == 1) out.assign(static_cast<size_t>(channels), out[0]);
  if (!std::all_of(out.begin(), out.end(), [](double v) { return std::isfinite(v); })) return std::nullopt;
  return out;
}

namespace {

std::optional<ChannelAffine> batch_normalization(const Node& node, int64_t channels) {
  if (node.attrs.get_int("training_mode", 0) != 0) return std::nullopt;
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != nullptr) return std::nullopt;
  }
  std::vector<std::vector<double>> p;  // scale, bias, mean, variance
  for (size_t i = 1; i < 5; ++i) {
    auto values = per_channel(node.input(i), 1, 0, channels);
    if (!values) return std::nullopt;
    p.push_back(std::move(*values));
  }
  const double epsilon = node.attrs.get_float("epsilon", 1e-5f);
  ChannelAffine out;
  for (size_t c = 0; c < p[0].size(); ++c) {
    const double scale = p[0][c] / std::sqrt(p[3][c] + epsilon);
    if (!std::isfinite(scale)) return std::nullopt;
    out.scale.push_back(scale);
    out.shift.push_back(p[1][c] - p[2][c] * scale);
  }
  return out;
}

}  // namespace

std::optional<ChannelAffine> as_channel_affine(const Node& node, const Value* x, int axis, int64_t channels) {
  if (!same_type(node.output(), x)) return std::nullopt;
  if (node.op == "BatchNormalization") {
    return node.input(0) == x && axis == 1 ? batch_normalization(node, channels) : std::nullopt;
  }
  const auto n = static_cast<size_t>(channels);
  if (node.op == "Neg") return ChannelAffine{std::vector<double>(n, -1), std::vector<double>(n, 0)};
  const bool known = node.op == "Mul" || node.op == "Add" || node.op == "Sub" || node.op == "Div";
  if (!known || (node.input(0) == x) == (node.input(1) == x)) return std::nullopt;
  const bool first = node.input(0) == x;
  auto constant = per_channel(node.input(first ? 1 : 0), x->type.shape.rank(), axis, channels);
  if (!constant || (node.op == "Div" && !first)) return std::nullopt;
  ChannelAffine out{std::vector<double>(n, 1), std::vector<double>(n, 0)};
  for (size_t c = 0; c < n; ++c) {
    const double k = (*constant)[c];
    if (node.op == "Mul") out.scale[c] = k;
    if (node.op == "Div") out.scale[c] = 1 / k;
    if (node.op == "Add") out.shift[c] = k;
    if (node.op == "Sub") out.scale[c] = first ? 1 : -1;
    if (node.op == "Sub") out.shift[c] = first ? -k : k;
    if (!std::isfinite(out.scale[c])) return std::nullopt;
  }
  return out;
}

}  // namespace deepjit
