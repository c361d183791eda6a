// Normalisations of sums and of embeddings.
#include "import/onnx/microsoft/families.h"
#include "import/onnx/tensor.h"

namespace deepjit::importer {

namespace {

Attributes last_axis(const NodeImport& node) {
  Attributes attrs;
  attrs.set("axis", node.attrs.get_int("axis", -1));
  attrs.set("epsilon", node.attrs.get_float("epsilon", 1e-5f));
  return attrs;
}

// Defines output 0 as the RMS norm of x, and output `inverse` as 1 / sqrt(mean of squares + epsilon).
void define_rms_norm(const Emit& emit, Value* x, Value* gamma, size_t inverse) {
  NodeImport& node = emit.node();
  const Attributes attrs = last_axis(node);
  node.define(0, "RMSNormalization", {x, gamma}, attrs);
  if (!node.has_output(inverse)) return;
  const int64_t rank = require_rank(x, "a normalised tensor");
  const int64_t axis = attrs.get_int("axis", -1);
  std::vector<int64_t> axes;
  for (int64_t i = axis < 0 ? axis + rank : axis; i < rank; ++i) axes.push_back(i);
  Value* real = emit.cast(x, DType::FLOAT32);
  Value* mean = emit.op("ReduceMean", {emit.mul(real, real), emit.ints(axes)});
  Value* shifted = emit.add(mean, emit.scalar_like(attrs.get_float("epsilon", 1e-5f), mean));
  node.define(inverse, "Reciprocal", {emit.op("Sqrt", {shifted})});
}

void simplified_layer_normalization(NodeImport& node) {
  define_rms_norm(Emit(node), node.require_input(0), node.require_input(1), 1);
}

// The sum of input, skip and bias is output 3.
Value* skip_sum(const Emit& emit, Value* bias) {
  NodeImport& node = emit.node();
  Value* sum = emit.add(node.require_input(0), node.require_input(1));
  if (bias != nullptr) sum = emit.add(sum, bias);
  node.define(3, "Identity", {sum});
  return sum;
}

void skip_layer_normalization(NodeImport& node) {
  const Emit emit(node);
  Value* sum = skip_sum(emit, node.input(4));
  std::vector<Value*> inputs = {sum, node.require_input(2)};
  if (node.input(3) != nullptr) inputs.push_back(node.input(3));
  const bool statistics = node.has_output(1) || node.has_output(2);
  Node* norm = node.emit_many("LayerNormalization", inputs, last_axis(node), statistics ? 3 : 1);
  for (size_t i = 0; i < norm->outputs.size(); ++i) node.define(i, "Identity", {norm->output(i)});
}

void skip_simplified_layer_normalization(NodeImport& node) {
  const Emit emit(node);
  if (node.has_output(1)) throw Error(Code::UNSUPPORTED_OP, "the output mean is not supported");
  define_rms_norm(emit, skip_sum(emit, node.input(3)), node.require_input(2), 2);
}

// Words, positions and segments looked up, added and normalised; output 1 counts the words of each row.
void embed_layer_normalization(NodeImport& node) {
  const Emit emit(node);
  Value* ids = node.require_input(0);
  Value* positions = node.input(8);
  Value* sum = emit.gather(node.require_input(2), ids, 0);
  if (positions != nullptr) {
    sum = emit.add(sum, emit.gather(node.require_input(3), positions, 0));
  } else {
    sum = emit.add(sum, emit.slice(node.require_input(3), 0, emit.ints({0}), emit.dim(ids, 1)));
  }
  if (node.input(1) != nullptr && node.input(4) != nullptr) {
    sum = emit.add(sum, emit.gather(node.input(4), node.input(1), 0));
  }
  Attributes attrs;
  attrs.set("axis", int64_t{-1});
  attrs.set("epsilon", node.attrs.get_float("epsilon", 1e-12f));
  node.define(0, "LayerNormalization", {sum, node.require_input(5), node.require_input(6)}, attrs);
  node.define(2, "Identity", {sum});
  if (!node.has_output(1)) return;
  Attributes plain;
  plain.set("keepdims", int64_t{0});
  Value* mask = node.input(7);
  if (mask == nullptr) {  // nothing is counted
    Value* zeros = emit.expand(node.constant(scalar_of(DType::INT32, 0, {1})), emit.dim(ids, 0));
    node.define(1, "Identity", {zeros});
    return;
  }
  Value* words = emit.cast(emit.op("Equal", {mask, emit.scalar_like(1, mask)}), DType::INT32);
  node.define(1, "ReduceSum", {words, emit.ints({1})}, plain);
}

// x [N, C, ...] or [N, ..., C], after the sum with skip and bias.
void define_group_norm(const Emit& emit, Value* x, bool channels_last) {
  NodeImport& node = emit.node();
  const int64_t activation = node.attrs.require_int("activation");
  if (activation != 0 && activation != 1) {
    throw Error(Code::UNSUPPORTED_OP, "activation " + std::to_string(activation) + " is not supported");
  }
  Attributes attrs;
  attrs.set("num_groups", node.attrs.require_int("groups"));
  attrs.set("epsilon", node.attrs.get_float("epsilon", 1e-5f));
  if (channels_last) x = to_channels_first(emit, x);
  Value* gamma = emit.cast_like(node.require_input(1), x);
  Value* y = node.emit("GroupNormalization", {x, gamma, emit.cast_like(node.require_input(2), x)}, attrs);
  if (activation == 1) y = emit.mul(y, emit.op("Sigmoid", {y}));
  node.define(0, "Identity", {channels_last ? to_channels_last(emit, y) : y});
}

void group_norm(NodeImport& node) {
  define_group_norm(Emit(node), node.require_input(0), node.attrs.get_int("channels_last", 1) != 0);
}

void skip_group_norm(NodeImport& node) {
  const Emit emit(node);
  const bool channels_last = node.attrs.get_int("channels_last", 1) != 0;
  Value* skip = node.require_input(3);
  if (require_rank(skip, "skip") == 2)
    skip = emit.unsqueeze(skip, channels_last ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2, 3});
  Value* sum = emit.add(node.require_input(0), skip);
  if (node.input(4) != nullptr) {
    sum = emit.add(sum, channels_last ? node.input(4) : emit.reshape(node.input(4), {-1, 1, 1}));
  }
  node.define(1, "Identity", {sum});
  define_group_norm(emit, sum, channels_last);
}

}  // namespace

void add_microsoft_norm_handlers(HandlerMap& map) {
  map["com.microsoft.SkipLayerNormalization"] = skip_layer_normalization;
  map["com.microsoft.SkipSimplifiedLayerNormalization"] = skip_simplified_layer_normalization;
  map["com.microsoft.EmbedLayerNormalization"] = embed_layer_normalization;
  map["com.microsoft.GroupNorm"] = group_norm;
  map["com.microsoft.SkipGroupNorm"] = skip_group_norm;
  // ONNX Runtime puts this one in the default domain as well.
  map["SimplifiedLayerNormalization"] = simplified_layer_normalization;
  map["com.microsoft.SimplifiedLayerNormalization"] = simplified_layer_normalization;
}

}  // namespace deepjit::importer
