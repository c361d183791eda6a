#include "passes/layout/space_to_depth.h"

#include <cstring>

#include "ops/op.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

constexpr int64_t kFewChannels = 4;
constexpr int64_t kChunk = 8;  // channels that kernels read at a time

struct Plan {
  int64_t stride = 1, channels = 0, padded = 0;  // channels before and after zeros are added
  int64_t front[2] = {0, 0};                     // rows and columns of zeros before the kernel
  int64_t kernel[2] = {1, 1};                    // of the new one
  std::vector<int64_t> pads = {0, 0, 0, 0};

  // Of the new channels the longest run comes last, which kernels write and read at a time: places of one channel along
  // x, or the channels of one place.
  bool x_last() const { return stride >= padded; }
  int64_t channel(int64_t y, int64_t x, int64_t c) const {
    return x_last() ? (y * padded + c) * stride + x : (y * stride + x) * padded + c;
  }
};

std::vector<int64_t> ints_of(const Node* node, const char* name, int64_t fallback) {
  std::vector<int64_t> values = node->attrs.get_ints(name);
  return values.empty() ? std::vector<int64_t>{fallback, fallback} : values;
}

// Along one axis: nothing unless the result has a place for each square.
bool plan_axis(const Node* node, size_t axis, Plan& plan) {
  const int at = static_cast<int>(axis) + 2;
  const Dim &in = node->input(0)->type.shape[at], &out = node->output()->type.shape[at];
  const std::vector<int64_t> pads = node->attrs.get_ints("pads", {0, 0, 0, 0});
  if (!in.is_const() || !out.is_const() || pads.size() != 4) return false;
  const int64_t s = plan.stride, kernel = node->input(1)->constant.dims()[at], pad = pads[axis];
  if (in.value() % s != 0 || out.value() != in.value() / s) return false;
  plan.front[axis] = (s - pad % s) % s;
  plan.kernel[axis] = (kernel + plan.front[axis] + s - 1) / s;
  const int64_t begin = (pad + plan.front[axis]) / s;
  plan.pads[axis] = begin;
  plan.pads[axis + 2] = plan.kernel[axis] - 1 - begin;
  return plan.pads[axis + 2] >= 0;
}

std::optional<Plan> plan_of(const Node* node) {
  const Value* x = node->input(0);
  if (node->op != "Conv" || node->outputs.size() != 1 || !ranked(x) || x->type.shape.rank() != 4) return std::nullopt;
  const Value* w = node->input(1);
  const DType type = x->type.dtype;
  if ((type != DType::FLOAT16 && type != DType::BFLOAT16) || !w->is_constant() || !ranked(node->output())) return {};
  if (node->attrs.get_int("group", 1) != 1 || node->attrs.get_string("auto_pad", "NOTSET") != "NOTSET") return {};
  const std::vector<int64_t> strides = ints_of(node, "strides", 1), dilations = ints_of(node, "dilations", 1);
  if (strides.size() != 2 || strides[0] != strides[1] || strides[0] < 2) return std::nullopt;
  if (dilations != std::vector<int64_t>{1, 1}) return std::nullopt;
  Plan plan;
  plan.stride = strides[0];
  plan.channels = w->constant.dims()[1];
  if (plan.channels > kFewChannels) return std::nullopt;
  for (plan.padded = plan.channels; plan.stride * plan.stride * plan.padded % kChunk != 0;) ++plan.padded;
  return plan_axis(node, 0, plan) && plan_axis(node, 1, plan) ? std::optional(plan) : std::nullopt;
}

// [out, channels, y, x] to [out, new channel, square, square].
Tensor deepen_weights(const Tensor& weights, const Plan& p) {
  const Dims& from = weights.dims();
  const int64_t s = p.stride, size = static_cast<int64_t>(dtype_size(weights.dtype()));
  Tensor deep(weights.dtype(), Dims{from[0], s * s * p.padded, p.kernel[0], p.kernel[1]});
  std::memset(deep.view().data, 0, static_cast<size_t>(deep.bytes()));
  for (int64_t i = 0; i < weights.count(); ++i) {
    const int64_t x = i % from[3] + p.front[1], y = i / from[3] % from[2] + p.front[0];
    const int64_t c = i / (from[3] * from[2]) % from[1], o = i / (from[3] * from[2] * from[1]);
    const int64_t to =
        ((o * s * s * p.padded + p.channel(y % s, x % s, c)) * p.kernel[0] + y / s) * p.kernel[1] + x / s;
    std::memcpy(deep.as<char>() + to * size, weights.as<char>() + i * size, static_cast<size_t>(size));
  }
  return deep;
}

// [N, C, H, W] to [N, new channel, H / s, W / s].
Value* deepen_image(Node* node, Value* x, const Plan& p) {
  if (!p.x_last()) {
    Attributes blocks;
    blocks.set("blocksize", p.stride);
    return emit(node, "SpaceToDepth", {x}, std::move(blocks), node);
  }
  const Shape& shape = x->type.shape;
  const int64_t s = p.stride, height = shape[2].value() / s, width = shape[3].value() / s;
  Value* squares = emit_reshape(node, x, {shape[0], p.padded, height, s, width, s}, node);
  if (squares == nullptr) return nullptr;
  Attributes turn;
  turn.set("perm", std::vector<int64_t>{0, 3, 1, 5, 2, 4});
  Value* turned = emit(node, "Transpose", {squares}, std::move(turn), node);
  return emit_reshape(node, turned, {shape[0], s * s * p.padded, height, width}, node);
}

bool deepen(Node* node) {
  const auto plan = plan_of(node);
  if (!plan) return false;
  std::vector<Value*> inputs = node->inputs;
  if (plan->padded != plan->channels) {
    Value* zeros = emit_ints(node, {0, 0, 0, 0, 0, plan->padded - plan->channels, 0, 0});
    inputs[0] = emit(node, "Pad", {inputs[0], zeros}, {}, node);
  }
  inputs[0] = deepen_image(node, inputs[0], *plan);
  if (inputs[0] == nullptr) return false;
  inputs[1] = emit_constant(node, deepen_weights(inputs[1]->constant, *plan), inputs[1]->name);
  Attributes attrs = node->attrs;
  attrs.set("strides", std::vector<int64_t>{1, 1});
  attrs.set("pads", plan->pads);
  attrs.set("kernel_shape", std::vector<int64_t>{plan->kernel[0], plan->kernel[1]});
  return replace_node(node, emit(node, "Conv", inputs, std::move(attrs), node));
}

}  // namespace

bool deepen_images(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) changed = deepen(node) || changed;
  return changed;
}

}  // namespace deepjit
