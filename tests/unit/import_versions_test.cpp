// Nodes of older opsets arrive in the newest opset's form.
#include "import_test_util.h"

namespace deepjit {
namespace {

std::vector<int64_t> constant_ints(const Node& node, size_t i) {
  const Value* value = node.input(i);
  return value != nullptr && value->is_constant() ? value->constant.to_i64() : std::vector<int64_t>{-999};
}

// One node of `op` over x[2,3,4] at an opset.
struct OneNode {
  ModelBuilder m;
  onnx::NodeProto* node;
  OneNode(const std::string& op, int64_t opset, const Names& outputs = {"y"}, const std::vector<D>& dims = {2, 3, 4})
      : m(opset) {
    add_input(m.graph(), "x", dims);
    node = &add_node(m.graph(), op, {"x"}, outputs, "n");
    for (const auto& output : outputs) add_output(m.graph(), output);
  }
};

TEST(ImportVersions, AxesBecomeInputs) {
  for (const char* op : {"Unsqueeze", "ReduceSum", "ReduceMean", "ReduceMax"}) {
    OneNode one(op, 11);
    add_ints(*one.node, "axes", {0, 1});
    const ImportedModel got = one.m.load();
    const Node& node = node_of(*got.graph, op);
    EXPECT_EQ(constant_ints(node, 1), (std::vector<int64_t>{0, 1})) << op;
    EXPECT_FALSE(node.attrs.has("axes")) << op;
  }
  OneNode squeeze("Squeeze", 11, {"y"}, {1, 3, 1});
  add_ints(*squeeze.node, "axes", {0});
  EXPECT_EQ(squeeze.m.load().graph->outputs[0]->type.to_string(), "float32[3,1]");
  OneNode mean("ReduceMean", 17);
  add_ints(*mean.node, "axes", {1});
  add_int(*mean.node, "keepdims", 0);
  EXPECT_EQ(mean.m.load().graph->outputs[0]->type.to_string(), "float32[2,4]");
}

// Two operands a[2,3,4] and b, at an opset before 7.
ImportedModel binary_before_7(const std::string& op, const std::vector<D>& b, std::optional<int64_t> axis,
                              int64_t opset = 6) {
  ModelBuilder m(opset);
  add_input(m.graph(), "a", {2, 3, 4});
  add_input(m.graph(), "b", b);
  auto& node = add_node(m.graph(), op, {"a", "b"}, {"y"}, "n");
  if (op != "PRelu") add_int(node, "broadcast", 1);
  if (axis) add_int(node, "axis", *axis);
  if (opset < 6) add_ints(node, "consumed_inputs", {0, 0});
  add_output(m.graph(), "y");
  return m.load();
}

TEST(ImportVersions, OperandsBefore7StandAtAnAxis) {
  const ImportedModel first = binary_before_7("Add", {2}, 0);
  EXPECT_EQ(node_of(*first.graph, "Add").input(1)->type.to_string(), "float32[2,1,1]");
  EXPECT_TRUE(node_of(*first.graph, "Add").attrs.all().empty());
  const ImportedModel middle = binary_before_7("Pow", {3}, 1, 1);
  EXPECT_EQ(node_of(*middle.graph, "Pow").input(1)->type.to_string(), "float32[3,1]");
  EXPECT_EQ(ops_of(*binary_before_7("Mul", {3, 4}, 1).graph), Names{"Mul"});
  EXPECT_EQ(ops_of(*binary_before_7("Sub", {4}, std::nullopt).graph), Names{"Sub"});
  EXPECT_EQ(error_of([] { binary_before_7("Div", {3, 4}, 2); }).code(), Code::ATTRIBUTE);
  const ImportedModel slope = binary_before_7("PRelu", {3}, std::nullopt);
  EXPECT_EQ(node_of(*slope.graph, "PRelu").input(1)->type.to_string(), "float32[3,1]");
  EXPECT_EQ(ops_of(*binary_before_7("PRelu", {1}, std::nullopt).graph), Names{"PRelu"});
}

TEST(ImportVersions, AttributesOfTheFirstOpsets) {
  OneNode reshape("Reshape", 1);
  add_ints(*reshape.node, "shape", {0, -1});
  EXPECT_EQ(reshape.m.load().graph->outputs[0]->type.to_string(), "float32[2,12]");
  OneNode cast("Cast", 1);
  add_string(*cast.node, "to", "INT64");
  EXPECT_EQ(cast.m.load().graph->outputs[0]->type.to_string(), "int64[2,3,4]");
  OneNode nowhere("Cast", 1);
  add_string(*nowhere.node, "to", "INT65");
  EXPECT_EQ(error_of([&] { nowhere.m.load(); }).code(), Code::ATTRIBUTE);
  OneNode pad("Pad", 1);
  add_ints(*pad.node, "paddings", {0, 0, 1, 0, 0, 1});
  EXPECT_EQ(pad.m.load().graph->outputs[0]->type.to_string(), "float32[2,3,6]");
  OneNode up("Upsample", 1, {"y"}, {1, 1, 2, 3});
  add_float(*up.node, "height_scale", 2);
  add_float(*up.node, "width_scale", 3);
  EXPECT_EQ(up.m.load().graph->outputs[0]->type.to_string(), "float32[1,1,4,9]");
  OneNode pool("LpPool", 1, {"y"}, {1, 1, 4, 4});
  add_float(*pool.node, "p", 1);
  add_ints(*pool.node, "kernel_shape", {2, 2});
  EXPECT_EQ(node_of(*pool.m.load().graph, "LpPool").attrs.get_int("p", 0), 1);
  OneNode concat("Concat", 1);
  EXPECT_EQ(node_of(*concat.m.load().graph, "Concat").attrs.get_int("axis", 0), 1);
  OneNode selu("Selu", 1);
  EXPECT_EQ(node_of(*selu.m.load().graph, "Selu").attrs.get_float("alpha", 0), 1.6732f);
}

TEST(ImportVersions, TileOneAxis) {
  ModelBuilder m(1);
  add_input(m.graph(), "x", {2, 3});
  set_ints(*m.graph().add_initializer(), "tiles", {}, {4});
  set_ints(*m.graph().add_initializer(), "axis", {}, {1});
  add_node(m.graph(), "Tile", {"x", "tiles", "axis"}, {"y"});
  add_output(m.graph(), "y");
  EXPECT_EQ(m.load().graph->outputs[0]->type.to_string(), "float32[2,12]");
}

TEST(ImportVersions, SoftmaxFlattensBefore13) {
  OneNode one("Softmax", 11);
  const ImportedModel got = one.m.load();
  EXPECT_EQ(ops_of(*got.graph), (Names{"Flatten", "Softmax", "Shape", "Reshape"}));
  EXPECT_EQ(node_of(*got.graph, "Softmax").output()->type.to_string(), "float32[2,12]");
  EXPECT_EQ(got.graph->outputs[0]->type.to_string(), "float32[2,3,4]");
  OneNode last("Softmax", 11);
  add_int(*last.node, "axis", 2);
  const ImportedModel simple = last.m.load();
  EXPECT_EQ(ops_of(*simple.graph), Names{"Softmax"});
  EXPECT_EQ(simple.graph->nodes().front()->attrs.get_int("axis", 0), -1);
  OneNode newer("Softmax", 13);
  EXPECT_EQ(ops_of(*newer.m.load().graph), Names{"Softmax"});
}

TEST(ImportVersions, ClipLimitsBecomeInputsOfTheRightType) {
  OneNode one("Clip", 6 + 1);
  add_float(*one.node, "max", 6);
  const ImportedModel got = one.m.load();
  const Node& clip = node_of(*got.graph, "Clip");
  EXPECT_EQ(clip.input(1), nullptr);
  EXPECT_EQ(clip.input(2)->constant.dtype(), DType::FLOAT32);
  EXPECT_EQ(clip.input(2)->constant.to_f64(), std::vector<double>{6});
  EXPECT_FALSE(clip.attrs.has("max"));
}

TEST(ImportVersions, SliceSplitPadTopK) {
  OneNode slice("Slice", 9);
  add_ints(*slice.node, "starts", {1});
  add_ints(*slice.node, "ends", {3});
  add_ints(*slice.node, "axes", {2});
  EXPECT_EQ(slice.m.load().graph->outputs[0]->type.to_string(), "float32[2,3,2]");
  OneNode split("Split", 11, {"p", "q"});
  add_ints(*split.node, "split", {1, 3});
  add_int(*split.node, "axis", 2);
  EXPECT_EQ(split.m.load().graph->outputs[1]->type.to_string(), "float32[2,3,3]");
  OneNode equal("Split", 13, {"p", "q"});
  const ImportedModel halves = equal.m.load();
  EXPECT_EQ(halves.graph->outputs[1]->type.to_string(), "float32[1,3,4]");
  EXPECT_EQ(halves.graph->nodes().front()->attrs.get_int("num_outputs", 0), 2);
  OneNode pad("Pad", 10);
  add_ints(*pad.node, "pads", {0, 0, 1, 0, 0, 2});
  add_float(*pad.node, "value", 5);
  const ImportedModel padded = pad.m.load();
  EXPECT_EQ(padded.graph->outputs[0]->type.to_string(), "float32[2,3,7]");
  EXPECT_EQ(padded.graph->nodes().front()->input(2)->constant.to_f64(), std::vector<double>{5});
  OneNode top("TopK", 9, {"v", "i"});
  add_int(*top.node, "k", 2);
  EXPECT_EQ(top.m.load().graph->outputs[1]->type.to_string(), "int64[2,3,2]");
}

TEST(ImportVersions, UpsampleIsAnAsymmetricResize) {
  OneNode one("Upsample", 7, {"y"}, {1, 2, 3, 4});
  auto& scales = add_attribute(*one.node, "scales", onnx::AttributeProto::FLOATS);
  for (float s : {1.f, 1.f, 2.f, 2.f}) scales.add_floats(s);
  const ImportedModel got = one.m.load();
  const Node& resize = node_of(*got.graph, "Resize");
  EXPECT_EQ(resize.attrs.get_string("coordinate_transformation_mode", ""), "asymmetric");
  EXPECT_EQ(resize.attrs.get_string("nearest_mode", ""), "floor");
  EXPECT_EQ(got.graph->outputs[0]->type.to_string(), "float32[1,2,6,8]");
}

TEST(ImportVersions, Resize10TakesTheElementBehindWhereItShrinks) {
  ModelBuilder m(10);
  add_input(m.graph(), "x", {1, 1, 4, 10});
  set_floats(*m.graph().add_initializer(), "s", {4}, {1, 1, 2, 0.5f});
  add_node(m.graph(), "Resize", {"x", "s"}, {"y"});
  add_output(m.graph(), "y");
  const ImportedModel got = m.load();
  ASSERT_EQ(ops_of(*got.graph), (Names{"Resize", "Resize"}));
  EXPECT_EQ(got.graph->nodes().front()->attrs.get_string("nearest_mode", ""), "floor");
  EXPECT_EQ(got.graph->nodes().back()->attrs.get_string("nearest_mode", ""), "ceil");
  EXPECT_EQ(got.graph->outputs[0]->type.to_string(), "float32[1,1,8,5]");
}

TEST(ImportVersions, DropoutPassesThrough) {
  OneNode one("Dropout", 11);
  add_float(*one.node, "ratio", 0.5f);
  EXPECT_EQ(ops_of(*one.m.load().graph), Names{"Identity"});
  OneNode newer("Dropout", 13);
  EXPECT_EQ(ops_of(*newer.m.load().graph), Names{"Identity"});
}

TEST(ImportVersions, ScatterIsScatterElements) {
  ModelBuilder m(9);
  add_input(m.graph(), "x", {4});
  add_input(m.graph(), "i", {2}, onnx::TensorProto::INT64);
  add_input(m.graph(), "u", {2});
  add_node(m.graph(), "Scatter", {"x", "i", "u"}, {"y"});
  add_output(m.graph(), "y");
  EXPECT_EQ(ops_of(*m.load().graph), Names{"ScatterElements"});
}

TEST(ImportVersions, DftAxisBecomesAnInput) {
  OneNode one("DFT", 17, {"y"}, {1, 8, 1});
  const ImportedModel got = one.m.load();
  const Node& dft = node_of(*got.graph, "DFT");
  EXPECT_EQ(dft.input(1), nullptr);
  EXPECT_EQ(constant_ints(dft, 2), std::vector<int64_t>{1});
}

TEST(ImportVersions, GroupNormalizationScalesChannels) {
  ModelBuilder m(18);
  add_input(m.graph(), "x", {1, 6, 5});
  set_floats(*m.graph().add_initializer(), "s", {2}, {1, 2});
  set_floats(*m.graph().add_initializer(), "b", {2}, {3, 4});
  auto& node = add_node(m.graph(), "GroupNormalization", {"x", "s", "b"}, {"y"});
  add_int(node, "num_groups", 2);
  add_output(m.graph(), "y");
  const ImportedModel got = m.load();
  const Node& norm = node_of(*got.graph, "GroupNormalization");
  EXPECT_EQ(norm.input(0), got.graph->inputs[0]);
  EXPECT_EQ(norm.input(1)->producer->op, "Reshape");
  EXPECT_EQ(got.graph->outputs[0]->type.to_string(), "float32[1,6,5]");
}

TEST(ImportVersions, BatchNormalizationPerActivation) {
  ModelBuilder m(7);
  add_input(m.graph(), "x", {"N", 3, 4});
  for (const char* name : {"s", "b", "mean", "var"}) add_input(m.graph(), name, {3, 4});
  auto& node = add_node(m.graph(), "BatchNormalization", {"x", "s", "b", "mean", "var"}, {"y"});
  add_int(node, "spatial", 0);
  add_output(m.graph(), "y");
  const ImportedModel got = m.load();
  EXPECT_EQ(ops_of(*got.graph), (Names{"Add", "Sqrt", "Sub", "Div", "Mul", "Add"}));
  EXPECT_EQ(got.graph->outputs[0]->type.to_string(), "float32[N,3,4]");
}

TEST(ImportVersions, Scan8RunsOverTheBatch) {
  ModelBuilder m(8);
  add_input(m.graph(), "state", {5, 2});
  add_input(m.graph(), "x", {5, 7, 2});
  auto& node = add_node(m.graph(), "Scan", {"", "state", "x"}, {"last", "all"}, "scan");
  add_int(node, "num_scan_inputs", 1);
  auto& body = add_graph(node, "body");
  add_input(body, "s", {2});
  add_input(body, "item", {2});
  add_node(body, "Add", {"s", "item"}, {"next"});
  add_node(body, "Neg", {"next"}, {"out"});
  add_output(body, "next");
  add_output(body, "out");
  add_output(m.graph(), "last");
  add_output(m.graph(), "all");
  const ImportedModel got = m.load();
  const Node& outer = node_of(*got.graph, "Scan");
  EXPECT_EQ(ops_of(*outer.bodies[0]), Names{"Scan"});
  EXPECT_EQ(got.graph->outputs[0]->type.to_string(), "float32[5,2]");
  EXPECT_EQ(got.graph->outputs[1]->type.to_string(), "float32[5,7,2]");
}

}  // namespace
}  // namespace deepjit
