// Ops whose axes, sizes or pads moved from attributes to inputs.
#include "import/onnx/node_import.h"

namespace deepjit::importer {

namespace {

void axes_to_input_before_13(NodeImport& node) {
  if (node.version < 13) node.attribute_to_input("axes", 1);
  node.finish();
}

void reduce(NodeImport& node) {
  if (node.version < 18) {
    // An empty list and none at all both mean all axes.
    if (node.attrs.has("axes") && node.attrs.get_ints("axes").empty()) node.attrs.erase("axes");
    node.attribute_to_input("axes", 1);
  }
  node.finish();
}

void reduce_sum(NodeImport& node) {
  if (node.version < 13) return reduce(node);
  node.finish();
}

void slice(NodeImport& node) {
  if (node.version < 10) {
    if (!node.attrs.has("starts") || !node.attrs.has("ends")) {
      throw Error(Code::ATTRIBUTE, "attributes starts and ends are required");
    }
    node.attribute_to_input("starts", 1);
    node.attribute_to_input("ends", 2);
    node.attribute_to_input("axes", 3);
  }
  node.finish();
}

void split(NodeImport& node) {
  if (node.version < 13) node.attribute_to_input("split", 1);
  if (node.version < 18 && node.input(1) == nullptr) {
    node.attrs.set("num_outputs", static_cast<int64_t>(node.outputs.size()));
  }
  node.finish();
}

void pad(NodeImport& node) {
  if (node.version < 11) {
    if (!node.attrs.has("pads")) throw Error(Code::ATTRIBUTE, "attribute pads is required");
    node.attribute_to_input("pads", 1);
    if (node.attrs.has("value")) {
      const float value = node.attrs.get_float("value", 0);
      node.attrs.erase("value");
      if (value != 0) node.set_input(2, node.scalar_like(value, node.require_input(0)));
    }
  }
  node.finish();
}

void top_k(NodeImport& node) {
  if (node.version < 10) {
    node.attrs.require_int("k");
    node.attribute_to_input("k", 1);
  }
  node.finish();
}

}  // namespace

void add_axes_handlers(HandlerMap& map) {
  map["Squeeze"] = axes_to_input_before_13;
  map["Unsqueeze"] = axes_to_input_before_13;
  map["ReduceSum"] = reduce_sum;
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                         "ReduceMin", "ReduceProd", "ReduceSumSquare"}) {
    map[op] = reduce;
  }
  map["Slice"] = slice;
  map["Split"] = split;
  map["Pad"] = pad;
  map["TopK"] = top_k;
}

}  // namespace deepjit::importer
