// Normalisations and activations whose meaning changed between opsets.
#include "base/visit.h"
#include "import/onnx/node_import.h"
#include "import/onnx/tensor.h"

namespace deepjit::importer {

namespace {

Attributes with_int(const char* name, int64_t value) {
  Attributes attrs;
  attrs.set(name, value);
  return attrs;
}

// Before opset 13 the axes from `axis` on are one: the input is seen as a matrix.
void softmax(NodeImport& node) {
  if (node.version >= 13) {
    node.finish();
    return;
  }
  Value* x = node.require_input(0);
  const int64_t axis = node.attrs.get_int("axis", 1);
  const std::optional<int> rank = rank_of(x);
  if (rank && (axis == *rank - 1 || axis == -1)) {
    node.finish(node.op, {x}, with_int("axis", -1));
    return;
  }
  Value* matrix = node.emit("Flatten", {x}, with_int("axis", axis));
  Value* y = node.emit(node.op, {matrix}, with_int("axis", -1));
  Value* shape = node.emit("Shape", {x});
  Attributes reshape;
  reshape.set("allowzero", int64_t{1});
  node.finish("Reshape", {y, shape}, reshape);
}

void clip(NodeImport& node) {
  if (node.version < 11) {
    Value* x = node.require_input(0);
    if (node.attrs.has("min")) node.set_input(1, node.scalar_like(node.attrs.get_float("min", 0), x));
    if (node.attrs.has("max")) node.set_input(2, node.scalar_like(node.attrs.get_float("max", 0), x));
    node.attrs.erase("min");
    node.attrs.erase("max");
  }
  node.finish();
}

// Statistics for each position, not for each channel: plain arithmetic that broadcasts over the batch.
void batch_normalization_per_activation(NodeImport& node) {
  Value* x = node.require_input(0);
  Value* var = node.require_input(4);
  Value* epsilon = node.scalar_like(node.attrs.get_float("epsilon", 1e-5f), x);
  Value* deviation = node.emit("Sqrt", {node.emit("Add", {var, epsilon})});
  Value* centred = node.emit("Sub", {x, node.require_input(3)});
  Value* scaled = node.emit("Mul", {node.emit("Div", {centred, deviation}), node.require_input(1)});
  node.define(0, "Add", {scaled, node.require_input(2)});
}

void batch_normalization(NodeImport& node) {
  const bool training = node.attrs.get_int("training_mode", 0) != 0;
  if (node.version < 14 || !training) node.keep_outputs(1);
  if (node.version < 9 && node.attrs.get_int("spatial", 1) == 0) return batch_normalization_per_activation(node);
  node.attrs.erase("spatial");
  if (!training) node.attrs.erase("momentum");
  node.finish();
}

// Opset 18 scales each group, later opsets each channel.
void group_normalization(NodeImport& node) {
  if (node.version >= 21) {
    node.finish();
    return;
  }
  Value* x = node.require_input(0);
  const int64_t groups = node.attrs.require_int("num_groups");
  if (groups <= 0) throw Error(Code::ATTRIBUTE, "num_groups must be positive");
  Value* group_count = node.ints({groups});
  Attributes channel;
  channel.set("start", int64_t{1});
  channel.set("end", int64_t{2});
  Value* per_group = node.emit("Div", {node.emit("Shape", {x}, channel), group_count});
  Value* shape = node.emit("Concat", {group_count, per_group}, with_int("axis", 0));
  auto repeat = [&](Value* v) {
    Value* column = node.emit("Reshape", {v, node.ints({groups, 1})});
    return node.emit("Reshape", {node.emit("Expand", {column, shape}), node.ints({-1})});
  };
  node.finish(node.op, {x, repeat(node.require_input(1)), repeat(node.require_input(2))}, node.attrs);
}

// Inference passes the data through; the mask keeps everything.
void dropout(NodeImport& node) {
  const Tensor* mode = constant_of(node.input(2));
  if (node.version >= 12 && node.input(2) != nullptr) {
    const bool off = mode != nullptr && mode->dtype() == DType::BOOL && mode->count() == 1 && *mode->as<uint8_t>() == 0;
    if (!off) {
      node.finish();
      return;
    }
  }
  Value* x = node.require_input(0);
  node.keep_outputs(2);
  node.define(0, "Identity", {x});
  if (!node.has_output(1)) return;
  Value* shape = node.emit("Shape", {x});
  Attributes ones;
  ones.set("value", scalar_of(DType::UINT8, 1, {1}));
  Value* mask = node.emit("ConstantOfShape", {shape}, ones);
  if (node.version < 10) {
    node.define(1, "CastLike", {mask, x});
  } else {
    node.define(1, "Cast", {mask}, with_int("to", static_cast<int64_t>(DType::BOOL)));
  }
}

}  // namespace

void add_norm_handlers(HandlerMap& map) {
  map["Softmax"] = softmax;
  map["LogSoftmax"] = softmax;
  map["Hardmax"] = softmax;
  map["Clip"] = clip;
  map["BatchNormalization"] = batch_normalization;
  map["GroupNormalization"] = group_normalization;
  map["Dropout"] = dropout;
}

}  // namespace deepjit::importer
