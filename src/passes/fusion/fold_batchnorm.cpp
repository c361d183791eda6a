#include "passes/fusion/fold_batchnorm.h"

#include <cmath>
#include <functional>

#include "base/visit.h"
#include "graph/infer.h"
#include "passes/edit.h"
#include "passes/fusion/channel_affine.h"

namespace deepjit {

namespace {

// How the weights of a linear op are laid out by output channel.
struct Linear {
  Node* node;
  int axis;          // channel axis of the result
  int64_t channels;  // output channels
  // The output channel that element i of the weights belongs to.
  std::function<int64_t(int64_t)> channel_of;
};

std::optional<Linear> as_linear(Node* node) {
  const Value* weights = node->input(1);
  if (weights == nullptr || !weights->is_constant() || !ranked(node->output())) return std::nullopt;
  if (!is_float(weights->constant.dtype())) return std::nullopt;
  const Dims dims = weights->constant.dims();
  const int64_t count = std::max<int64_t>(dims.count(), 1);
  if (node->op == "Conv" && dims.rank() >= 3) {
    const int64_t per_channel = std::max<int64_t>(count / std::max<int64_t>(dims[0], 1), 1);
    return Linear{node, 1, dims[0], [=](int64_t i) { return i / per_channel; }};
  }
  if (node->op == "ConvTranspose" && dims.rank() >= 3) {
    const int64_t group = node->attrs.get_int("group", 1);
    const int64_t inputs_per_group = dims[0] / group;
    const int64_t outputs = dims[1];
    const int64_t taps = std::max<int64_t>(count / std::max<int64_t>(dims[0] * outputs, 1), 1);
    return Linear{node, 1, outputs * group, [=](int64_t i) {
                    const int64_t input = i / taps / outputs;
                    return input / inputs_per_group * outputs + i / taps % outputs;
                  }};
  }
  const bool gemm = node->op == "Gemm";
  if ((gemm || node->op == "MatMul") && dims.rank() == 2) {
    const bool transposed = gemm && node->attrs.get_int("transB", 0) != 0;
    const int64_t channels = dims[transposed ? 0 : 1];
    const int64_t inner = std::max<int64_t>(dims[transposed ? 1 : 0], 1);
    return Linear{node, node->output()->type.shape.rank() - 1, channels,
                  [=](int64_t i) { return transposed ? i / inner : i % channels; }};
  }
  return std::nullopt;
}

// Elements of `like`'s type; nothing when one that was finite is not any more.
template <typename F>
std::optional<Tensor> make_tensor(DType dtype, const Dims& dims, F&& element) {
  Tensor out(dtype, dims);
  bool finite = true;
  visit_float(dtype, "folded weights", [&]<typename T>() {
    for (int64_t i = 0; i < out.count(); ++i) {
      out.as<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(element(i)));
      finite = finite && std::isfinite(static_cast<double>(load_as_compute(out.as<T>()[i])));
    }
  });
  if (!finite) return std::nullopt;
  return out;
}

// The bias per channel: zeros when there is none, nothing when it is not a constant per channel.
std::optional<std::vector<double>> bias_of(const Linear& linear) {
  const Value* bias = linear.node->input(2);
  if (bias == nullptr) return std::vector<double>(static_cast<size_t>(linear.channels), 0);
  return linear.node->op == "Gemm" ? per_channel(bias, 2, 1, linear.channels)
                                   : per_channel(bias, 1, 0, linear.channels);
}

// Changes the weights of `linear` so that it computes the affine map of what it did.
bool absorb(const Linear& linear, const ChannelAffine& affine) {
  Node* node = linear.node;
  const bool gemm = node->op == "Gemm";
  if (node->op == "MatMul" && affine.has_shift()) return false;
  auto bias = bias_of(linear);
  if (!bias) return false;
  const Tensor old = node->input(1)->constant;
  const DType dtype = old.dtype();
  std::vector<double> elements = old.to_f64();
  auto weights = make_tensor(dtype, old.dims(), [&](int64_t i) {
    return elements[static_cast<size_t>(i)] * affine.scale[static_cast<size_t>(linear.channel_of(i))];
  });
  const double beta = gemm ? node->attrs.get_float("beta", 1) : 1;
  auto shifts = make_tensor(dtype, Dims{linear.channels}, [&](int64_t c) {
    const auto i = static_cast<size_t>(c);
    return beta * (*bias)[i] * affine.scale[i] + affine.shift[i];
  });
  if (!weights || !shifts) return false;
  Graph& graph = *node->graph;
  if (affine.has_scale()) graph.set_input(node, 1, graph.add_constant(std::move(*weights), node->input(1)->name));
  if (node->op == "MatMul" || (node->input(2) == nullptr && !affine.has_shift())) return true;
  Value* bias_value = graph.add_constant(std::move(*shifts), node->name + "_bias");
  if (node->inputs.size() > 2) {
    graph.set_input(node, 2, bias_value);
  } else {
    graph.add_input_to(node, bias_value);
  }
  if (gemm) node->attrs.set("beta", 1.0f);
  return true;
}

// The readers of the linear op's result, one after the other, as long as they are affine; composed.
ChannelAffine collect_readers(const Linear& linear, std::vector<Node*>& readers) {
  const auto n = static_cast<size_t>(linear.channels);
  ChannelAffine whole{std::vector<double>(n, 1), std::vector<double>(n, 0)};
  const Value* v = linear.node->output();
  for (Node* reader = only_user(v); reader != nullptr; reader = only_user(v)) {
    const auto affine = as_channel_affine(*reader, v, linear.axis, linear.channels);
    if (!affine || (linear.node->op == "MatMul" && affine->has_shift())) break;
    for (size_t c = 0; c < n; ++c) {
      whole.scale[c] *= affine->scale[c];
      whole.shift[c] = whole.shift[c] * affine->scale[c] + affine->shift[c];
    }
    readers.push_back(reader);
    v = reader->output();
  }
  return whole;
}

bool fold_readers(Node* node) {
  if (!ranked(node->output()) || only_user(node->output()) == nullptr) return false;
  const auto linear = as_linear(node);
  if (!linear) return false;
  std::vector<Node*> readers;
  const ChannelAffine affine = collect_readers(*linear, readers);
  if (readers.empty() || !replaceable(readers.back()->output(), node->output()) || !absorb(*linear, affine))
    return false;
  for (const Node* reader : readers) {
    node->origins.insert(node->origins.end(), reader->origins.begin(), reader->origins.end());
  }
  replace_value(readers.back()->output(), node->output());
  for (size_t i = readers.size(); i-- > 0;) node->graph->erase(readers[i]);
  return true;
}

// A BatchNormalization that nothing could take becomes x * scale + shift.
bool split_standalone(Node* node) {
  const Value* x = node->input(0);
  if (!ranked(x) || x->type.shape.rank() < 2) return false;
  if (node->input(1) == nullptr || !node->input(1)->is_constant()) return false;
  const int64_t channels = node->input(1)->constant.count();
  const auto affine = as_channel_affine(*node, x, 1, channels);
  if (!affine) return false;
  Dims dims = Dims::filled(x->type.shape.rank() - 1, 1);
  dims[0] = channels;
  const DType dtype = x->type.dtype;
  auto scale = make_tensor(dtype, dims, [&](int64_t c) { return affine->scale[static_cast<size_t>(c)]; });
  auto shift = make_tensor(dtype, dims, [&](int64_t c) { return affine->shift[static_cast<size_t>(c)]; });
  if (!scale || !shift) return false;
  Value* scaled = emit(node, "Mul", {node->input(0), emit_constant(node, *scale)}, {}, node);
  Value* shifted = emit(node, "Add", {scaled, emit_constant(node, *shift)}, {}, node);
  return replace_node(node, shifted);
}

}  // namespace

bool fold_batchnorm(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) {
    if (graph.contains(node)) changed = fold_readers(node) || changed;
  }
  for (Node* node : graph.snapshot()) {
    if (node->op == "BatchNormalization") changed = split_standalone(node) || changed;
  }
  return changed;
}

}  // namespace deepjit
