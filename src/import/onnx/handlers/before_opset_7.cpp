// Nodes of opsets 1 to 6 into the form of opset 7, from where the handlers take over.
//
// What these opsets had of their own: broadcasting on request, aligned at an axis; consumed_inputs; is_test; and
// attributes that became inputs or changed their type.
#include <algorithm>
#include <cmath>

#include "import/onnx/node_import.h"
#include "import/onnx/tensor.h"

namespace deepjit::importer {

namespace {

int require_rank(const Value* value) {
  const std::optional<int> rank = rank_of(value);
  if (!rank) throw Error(Code::UNSUPPORTED_OP, "an operand of unknown rank is not supported in this opset");
  return *rank;
}

// `count` axes of size 1 from axis `at` on.
Value* with_ones(NodeImport& node, Value* value, int at, int count) {
  std::vector<int64_t> axes;
  for (int i = 0; i < count; ++i) axes.push_back(at + i);
  return count == 0 ? value : node.emit("Unsqueeze", {value, node.ints(axes)});
}

// The second operand's first axis stands at axis `axis` of the first operand; without `axis` the last axes match.
void broadcast(NodeImport& node) {
  const int64_t axis = node.attrs.get_int("axis", -1);
  if (node.attrs.get_int("broadcast", 0) != 0 && axis != -1) {
    Value* b = node.require_input(1);
    const int64_t behind = require_rank(node.require_input(0)) - axis - require_rank(b);
    if (axis < 0 || behind < 0) {
      throw Error(Code::ATTRIBUTE, "axis " + std::to_string(axis) + " leaves no room for the second operand");
    }
    node.set_input(1, with_ones(node, b, require_rank(b), static_cast<int>(behind)));
  }
  node.attrs.erase("axis");
  node.attrs.erase("broadcast");
}

// One slope for all, or one for each channel.
void prelu(NodeImport& node) {
  Value* slope = node.require_input(1);
  if (require_rank(slope) != 1 || slope->type.shape[0] == 1) return;
  node.set_input(1, with_ones(node, slope, 1, std::max(0, require_rank(node.require_input(0)) - 2)));
}

void gemm(NodeImport& node) { node.attrs.erase("broadcast"); }
void without_is_test(NodeImport& node) { node.attrs.erase("is_test"); }
void without_output_sequence(NodeImport& node) { node.attrs.erase("output_sequence"); }

void cast(NodeImport& node) {
  if (node.version >= 6) return;
  std::string name = node.attrs.get_string("to", "");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "float") name = "float32";
  if (name == "double") name = "float64";
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) throw Error(Code::ATTRIBUTE, "\"to\" names no element type");
  node.attrs.set("to", static_cast<int64_t>(*dtype));
}

void concat(NodeImport& node) {
  if (node.version < 4 && !node.attrs.has("axis")) node.attrs.set("axis", int64_t{1});
}

// p was a float.
void lp_pool(NodeImport& node) {
  if (node.version >= 2) return;
  const float p = node.attrs.get_float("p", 2);
  if (p != std::floor(p) || p > 1e6f) throw Error(Code::UNSUPPORTED_OP, "p that is no whole number is not supported");
  node.attrs.set("p", static_cast<int64_t>(p));
}

void pad(NodeImport& node) {
  if (node.version >= 2) return;
  node.attrs.set("pads", node.attrs.get_ints("paddings"));
  node.attrs.erase("paddings");
}

void reshape(NodeImport& node) {
  if (node.version >= 5) return;
  if (!node.attrs.has("shape")) throw Error(Code::ATTRIBUTE, "attribute shape is required");
  node.attribute_to_input("shape", 1);
}

void selu(NodeImport& node) {
  if (node.version >= 6) return;
  if (!node.attrs.has("alpha")) node.attrs.set("alpha", 1.6732f);
  if (!node.attrs.has("gamma")) node.attrs.set("gamma", 1.0507f);
}

// One axis `tiles` times.
void tile(NodeImport& node) {
  if (node.version >= 6) return;
  const Tensor* tiles = constant_of(node.require_input(1));
  const Tensor* axis = constant_of(node.require_input(2));
  if (tiles == nullptr || axis == nullptr || tiles->count() != 1 || axis->count() != 1) {
    throw Error(Code::UNSUPPORTED_OP, "tiles and axis that are no constants are not supported");
  }
  const int rank = require_rank(node.require_input(0));
  std::vector<int64_t> repeats(static_cast<size_t>(rank), 1);
  const auto at = static_cast<int64_t>(axis->to_f64()[0]);
  repeats[static_cast<size_t>(normalize_axis(at, rank))] = static_cast<int64_t>(tiles->to_f64()[0]);
  node.inputs = {node.inputs[0], node.ints(repeats)};
}

void upsample(NodeImport& node) {
  const float height = node.attrs.get_float("height_scale", 0);
  const float width = node.attrs.get_float("width_scale", 0);
  if (!(height >= 1) || !(width >= 1)) throw Error(Code::ATTRIBUTE, "height_scale and width_scale must be 1 or more");
  node.attrs.set("scales", std::vector<float>{1, 1, height, width});
  node.attrs.erase("height_scale");
  node.attrs.erase("width_scale");
}

HandlerMap translations() {
  HandlerMap map;
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"}) {
    map[op] = broadcast;
  }
  for (const char* op : {"RNN", "GRU", "LSTM"}) map[op] = without_output_sequence;
  map["BatchNormalization"] = without_is_test;
  map["Dropout"] = without_is_test;
  map["PRelu"] = prelu;
  map["Gemm"] = gemm;
  map["Cast"] = cast;
  map["Concat"] = concat;
  map["LpPool"] = lp_pool;
  map["GlobalLpPool"] = lp_pool;
  map["Pad"] = pad;
  map["Reshape"] = reshape;
  map["Selu"] = selu;
  map["Tile"] = tile;
  map["Upsample"] = upsample;
  return map;
}

}  // namespace

void translate_before_opset_7(NodeImport& node) {
  static const HandlerMap map = translations();
  node.attrs.erase("consumed_inputs");
  const auto found = map.find(node.op);
  if (found != map.end()) found->second(node);
}

}  // namespace deepjit::importer
