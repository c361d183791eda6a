// fuse_attention.
#include "passes/attention/fuse_attention.h"

#include "pass_test_util.h"

namespace deepjit {
namespace {

const Node* find(const Graph& graph, const std::string& op) {
  for (const auto& node : graph.nodes()) {
    if (node->op == op) return node.get();
  }
  return nullptr;
}

// The fused graph gives what the parts give, but for their roundings to 16 bits.
const Node* expect_fused(std::unique_ptr<Graph>& graph, const std::string& text) {
  graph = run_on("fuse_attention", fuse_attention, text);
  EXPECT_EQ(find(*graph, "Softmax"), nullptr) << print_graph(*graph);
  const Node* attention = find(*graph, "Attention");
  EXPECT_NE(attention, nullptr) << print_graph(*graph);
  const std::vector<Tensor> inputs = random_inputs(*graph, 3);
  expect_close(eval_graph(*parse_graph(text), inputs)[0], eval_graph(*graph, inputs)[0], 2e-2, "attention");
  return attention;
}

TEST(FuseAttention, RowsOfHeadsAreReadInPlace) {
  std::unique_ptr<Graph> graph;
  const Node* attention = expect_fused(
      graph, R"(graph @g(%a: float16[N,T,8], %b: float16[N,T,8], %c: float16[N,T,8], %m: float16[N,1,1,T]) -> (%y) {
    %split = constant int64[4] [0,0,2,4]
    %join = constant int64[3] [0,0,8]
    %eighth = constant float16[] [0.125]
    %q4 = Reshape(%a, %split)
    %k4 = Reshape(%b, %split)
    %v4 = Reshape(%c, %split)
    %q = Transpose(%q4) {perm=[0,2,1,3]}
    %k = Transpose(%k4) {perm=[0,2,3,1]}
    %v = Transpose(%v4) {perm=[0,2,1,3]}
    %s = MatMul(%q, %k)
    %scaled = Mul(%s, %eighth)
    %masked = Add(%scaled, %m)
    %p = Softmax(%masked) {axis=-1}
    %o = MatMul(%p, %v)
    %t = Transpose(%o) {perm=[0,2,1,3]}
    %y = Reshape(%t, %join)
  })");
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->attrs.get_int("q_num_heads", 0), 2);
  EXPECT_EQ(attention->attrs.get_float("scale", 0), 0.125f);
  EXPECT_EQ(attention->input(0)->type.shape.rank(), 3);
  EXPECT_EQ(attention->input(3)->name, "m");
}

TEST(FuseAttention, ScalesOfTheOperandsAndCastsBetween) {
  std::unique_ptr<Graph> graph;
  const Node* attention =
      expect_fused(graph, R"(graph @g(%q: float16[N,2,T,4], %kt: float16[N,2,T,4], %v: float16[N,2,T,4]) -> (%y) {
    %half = constant float16[] [0.5]
    %qs = Mul(%q, %half)
    %k = Transpose(%kt) {perm=[0,1,3,2]}
    %ks = Mul(%k, %half)
    %s = MatMul(%qs, %ks)
    %wide = Cast(%s) {to=1}
    %p = Softmax(%wide) {axis=3}
    %narrow = Cast(%p) {to=10}
    %y = MatMul(%narrow, %v)
  })");
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->attrs.get_float("scale", 0), 0.25f);
  EXPECT_EQ(attention->input(0)->type.shape.rank(), 4);
}

TEST(FuseAttention, WhatIsReadTwiceOrNoAttentionStays) {
  const auto graph_of = [](const std::string& type, const std::string& axis, const std::string& outputs) {
    return "graph @g(%q: " + type + "[N,2,T,4], %k: " + type + "[N,2,4,T], %v: " + type + "[N,2,T,4]) -> (" + outputs +
           ") { %s = MatMul(%q, %k) %p = Softmax(%s) {axis=" + axis + "} %y = MatMul(%p, %v) }";
  };
  expect_unchanged("fuse_attention", fuse_attention, graph_of("float32", "-1", "%y"));
  expect_unchanged("fuse_attention", fuse_attention, graph_of("float16", "2", "%y"));
  expect_unchanged("fuse_attention", fuse_attention, graph_of("float16", "-1", "%y, %p"));
  expect_unchanged("fuse_attention", fuse_attention, graph_of("float16", "-1", "%y, %s"));
}

}  // namespace
}  // namespace deepjit
