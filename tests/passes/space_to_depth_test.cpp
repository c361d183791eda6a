// space_to_depth.
#include "passes/layout/space_to_depth.h"

#include "pass_test_util.h"

namespace deepjit {
namespace {

const Node* conv_of(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (node->op == "Conv") return node.get();
  }
  return nullptr;
}

void expect_deeper(const std::string& image, const std::string& weights, const std::string& attrs, const Dims& becomes,
                   const char* op) {
  for (const char* type : {"float16", "bfloat16"}) {
    const std::string t = type;
    const std::string text = "graph @g(%x: " + t + "[N," + image + "]) -> (%y) { %w = constant " + t + "[" + weights +
                             "] random(1) %y = Conv(%x, %w) {" + attrs + "} }";
    std::unique_ptr<Graph> graph = run_on("space_to_depth", deepen_images, text);
    const Node* conv = conv_of(*graph);
    ASSERT_NE(conv, nullptr);
    EXPECT_EQ(conv->input(0)->producer->op, op) << print_graph(*graph);
    EXPECT_EQ(conv->input(1)->constant.dims(), becomes);
    EXPECT_EQ(conv->attrs.get_ints("strides"), (std::vector<int64_t>{1, 1}));
    const std::vector<Tensor> inputs = random_inputs(*graph, 3);
    expect_close(eval_graph(*parse_graph(text), inputs)[0], eval_graph(*graph, inputs)[0], 1e-2, text);
  }
}

// The longest run of the new channels is last: channels of one place, or places along x of one channel.
TEST(SpaceToDepth, StemsAndPatches) {
  expect_deeper("3,12,16", "4,3,7,7", "strides=[2,2], pads=[3,3,3,3]", {4, 16, 4, 4}, "SpaceToDepth");
  expect_deeper("3,8,6", "4,3,3,3", "strides=[2,2], pads=[1,1,1,1]", {4, 16, 2, 2}, "SpaceToDepth");
  expect_deeper("1,8,6", "4,1,5,5", "strides=[2,2], pads=[2,2,2,2]", {4, 8, 3, 3}, "Reshape");
  expect_deeper("3,8,12", "4,3,4,4", "strides=[4,4]", {4, 48, 1, 1}, "Reshape");
  expect_deeper("3,10,6", "4,3,2,2", "strides=[2,2], pads=[0,0,0,0]", {4, 16, 1, 1}, "SpaceToDepth");
}

TEST(SpaceToDepth, OthersStay) {
  const auto expect_same = [](const std::string& type, const std::string& image, const std::string& weights,
                              const std::string& attrs) {
    expect_unchanged("space_to_depth", deepen_images,
                     "graph @g(%x: " + type + "[N," + image + "]) -> (%y) { %w = constant " + type + "[" + weights +
                         "] random(1) %y = Conv(%x, %w) {" + attrs + "} }");
  };
  expect_same("float32", "3,12,16", "4,3,7,7", "strides=[2,2], pads=[3,3,3,3]");
  expect_same("float16", "8,12,16", "4,8,3,3", "strides=[2,2], pads=[1,1,1,1]");
  expect_same("float16", "3,12,16", "4,3,3,3", "pads=[1,1,1,1]");
  expect_same("float16", "3,11,16", "4,3,3,3", "strides=[2,2], pads=[1,1,1,1]");
  expect_same("float16", "3,12,16", "4,3,3,3", "strides=[2,1], pads=[1,1,1,1]");
  expect_same("float16", "3,H,W", "4,3,3,3", "strides=[2,2], pads=[1,1,1,1]");
  expect_same("float16", "3,12,16", "4,3,3,3", "strides=[2,2], pads=[3,3,3,3]");
}

}  // namespace
}  // namespace deepjit
