#include "passes/layout/layout_nhwc.h"

#include <cstring>
#include <set>

#include "ops/op.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

bool has_nhwc_form(const std::string& op) {
  static const std::set<std::string> ops = {"Conv", "ConvTranspose", "MaxPool", "AveragePool"};
  return ops.count(op) != 0 && op_registry().find("deepjit." + op) != nullptr;
}

bool has_kernels(DType dtype) { return dtype == DType::FLOAT32 || dtype == DType::FLOAT16 || dtype == DType::BFLOAT16; }

// Channels come in chunks of eight where kernels of 16-bit floats read them: an image of few gets zeros.
constexpr int64_t kChannels = 8;

Tensor with_channels(const Tensor& weights, int64_t channels) {
  Dims dims = weights.dims();
  const int64_t outer = dims[0], before = weights.bytes() / outer;
  const int64_t after = before / dims[1] * channels;
  dims[1] = channels;
  Tensor wide(weights.dtype(), dims);
  std::memset(wide.view().data, 0, static_cast<size_t>(wide.bytes()));
  for (int64_t o = 0; o < outer; ++o) {
    std::memcpy(wide.as<char>() + o * after, weights.as<char>() + o * before, static_cast<size_t>(before));
  }
  return wide;
}

// `inputs` are those of a convolution with channels last.
void pad_channels(Node* node, std::vector<Value*>& inputs) {
  const Dim& channels = node->input(0)->type.shape[1];
  const Value* weights = node->input(1);
  const bool few = channels.is_const() && channels.value() < kChannels && node->attrs.get_int("group", 1) == 1;
  if (node->op != "Conv" || !few || !weights->is_constant() || weights->type.dtype == DType::FLOAT32) return;
  std::vector<int64_t> pads(8, 0);
  pads[7] = kChannels - channels.value();
  inputs[0] = emit(node, "Pad", {inputs[0], emit_ints(node, pads)}, {}, node);
  inputs[1] = emit_constant(node, with_channels(weights->constant, kChannels), weights->name);
}

bool convert(Node* node) {
  const Value* x = node->input(0);
  if (!has_nhwc_form(node->op) || node->outputs.size() != 1 || !ranked(x) || x->type.shape.rank() != 4) return false;
  if (!has_kernels(x->type.dtype) || !ranked(node->output())) return false;
  auto transpose = [&](Value* v, std::vector<int64_t> perm) {
    Attributes attrs;
    attrs.set("perm", std::move(perm));
    return emit(node, "Transpose", {v}, std::move(attrs), node);
  };
  std::vector<Value*> inputs = node->inputs;
  inputs[0] = transpose(inputs[0], {0, 2, 3, 1});
  pad_channels(node, inputs);
  Attributes attrs = node->attrs;
  attrs.set("layout", std::string("NHWC"));
  Value* result = emit(node, "deepjit." + node->op, inputs, std::move(attrs), node);
  // The old result's dims are known at least as well.
  const Shape& old = node->output()->type.shape;
  result->type.shape = Shape({old[0], old[2], old[3], old[1]});
  Value* original = transpose(result, {0, 3, 1, 2});
  return replace_node(node, original);
}

// A mean or maximum over all positions is a reduction, which needs no order of axes, and fuses with what stands around.
bool reduce_positions(Node* node) {
  const bool mean = node->op == "GlobalAveragePool";
  const Value* x = node->input(0);
  if ((!mean && node->op != "GlobalMaxPool") || !ranked(x)) return false;
  std::vector<int64_t> axes;
  for (int i = 2; i < x->type.shape.rank(); ++i) axes.push_back(i);
  if (axes.empty()) return false;
  const char* const op = mean ? "ReduceMean" : "ReduceMax";
  return replace_node(node, emit(node, op, {node->input(0), emit_ints(node, axes)}, {}, node));
}

}  // namespace

bool use_nhwc(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) changed = convert(node) || reduce_positions(node) || changed;
  return changed;
}

}  // namespace deepjit
