// read_heads_in_place, merge_projections and the strided views that they see by.
#include "passes/attention/attention_rows.h"

#include "pass_test_util.h"
#include "passes/layout/strided_view.h"

namespace deepjit {
namespace {

size_t count(const Graph& graph, const std::string& op) {
  size_t n = 0;
  for (const auto& node : graph.nodes()) n += node->op == op ? 1 : 0;
  return n;
}

const Node* find(const Graph& graph, const std::string& op) {
  for (const auto& node : graph.nodes()) {
    if (node->op == op) return node.get();
  }
  return nullptr;
}

// Runs one of the passes; the graph's results stay, but for the roundings of products in another order.
std::unique_ptr<Graph> expect_rows(const std::string& name, bool (*pass)(Graph&), const std::string& text,
                                   const std::vector<int64_t>& starts, const std::vector<int64_t>& tokens_first) {
  SCOPED_TRACE(text);
  bool changed = false;
  auto graph = run_on(name, pass, text, &changed);
  EXPECT_TRUE(changed);
  const Node* attention = find(*graph, "deepjit.Attention");
  EXPECT_NE(attention, nullptr) << print_graph(*graph);
  if (attention == nullptr) return graph;
  EXPECT_EQ(attention->attrs.get_ints("starts"), starts);
  EXPECT_EQ(attention->attrs.get_ints("tokens_first"), tokens_first);
  EXPECT_EQ(count(*graph, "Attention"), 0u);
  const std::vector<Tensor> inputs = random_inputs(*graph, 5);
  expect_same_types(*parse_graph(text), *graph);
  expect_close(eval_graph(*parse_graph(text), inputs)[0], eval_graph(*graph, inputs)[0], 1e-2, "attention");
  return graph;
}

// One tensor of rows with Q, K and V in turn, cut as timm's, as torch's (tokens first), and by Split and Slice.
TEST(ReadHeadsInPlace, PartsOfPackedRows) {
  for (const std::string batch : {"N", "3"}) {
    const auto timm =
        expect_rows("read_heads_in_place", read_heads_in_place, "graph @g(%x: float16[" + batch + R"(,5,48]) -> (%y) {
      %split = constant int64[5] [0,0,3,2,8]
      %zero = constant int64[] [0]
      %one = constant int64[] [1]
      %two = constant int64[] [2]
      %join = constant int64[3] [0,0,16]
      %apart = Reshape(%x, %split)
      %turned = Transpose(%apart) {perm=[2,0,3,1,4]}
      %q = Gather(%turned, %zero) {axis=0}
      %k = Gather(%turned, %one) {axis=0}
      %v = Gather(%turned, %two) {axis=0}
      %a = Attention(%q, %k, %v) {scale=0.5}
      %t = Transpose(%a) {perm=[0,2,1,3]}
      %y = Reshape(%t, %join)
    })",
                    {0, 16, 32}, {0, 0, 0, 0});
    EXPECT_EQ(count(*timm, "Transpose") + count(*timm, "Gather"), 0u) << print_graph(*timm);

    const auto torch = expect_rows("read_heads_in_place", read_heads_in_place,
                                   "graph @g(%x: float16[5," + batch + R"(,48], %m: float16[5,5]) -> (%y) {
      %split = constant int64[4] [0,0,3,16]
      %zero = constant int64[] [0]
      %one = constant int64[] [1]
      %two = constant int64[] [-1]
      %heads = constant int64[3] [5,-1,8]
      %four = constant int64[4] [-1,2,5,8]
      %apart = Reshape(%x, %split)
      %turned = Transpose(%apart) {perm=[2,0,1,3]}
      %q1 = Gather(%turned, %zero) {axis=0}
      %k1 = Gather(%turned, %one) {axis=0}
      %v1 = Gather(%turned, %two) {axis=0}
      %q2 = Reshape(%q1, %heads)
      %k2 = Reshape(%k1, %heads)
      %v2 = Reshape(%v1, %heads)
      %q3 = Transpose(%q2) {perm=[1,0,2]}
      %k3 = Transpose(%k2) {perm=[1,0,2]}
      %v3 = Transpose(%v2) {perm=[1,0,2]}
      %q = Reshape(%q3, %four)
      %k = Reshape(%k3, %four)
      %v = Reshape(%v3, %four)
      %a = Attention(%q, %k, %v, %m)
      %y = Transpose(%a) {perm=[2,0,1,3]}
    })",
                                   {0, 16, 32}, {1, 1, 1, 1});
    EXPECT_EQ(count(*torch, "Transpose") + count(*torch, "Gather"), 0u) << print_graph(*torch);

    const auto cut =
        expect_rows("read_heads_in_place", read_heads_in_place, "graph @g(%x: float16[" + batch + R"(,5,40]) -> (%y) {
      %from = constant int64[1] [-36]
      %to = constant int64[1] [24]
      %axis = constant int64[1] [-1]
      %first, %q = Split(%x) {axis=2, num_outputs=2}
      %k = Slice(%x, %from, %to, %axis)
      %y = Attention(%q, %k, %first) {q_num_heads=2, kv_num_heads=2}
    })",
                    {20, 4, 0}, {0, 0, 0, 0});
    EXPECT_EQ(count(*cut, "Slice"), 0u);
  }
}

TEST(ReadHeadsInPlace, WhatIsNoViewOrNotOfRowsStays) {
  const auto graph_of = [](const std::string& type, const std::string& perm) {
    return "graph @g(%x: " + type + "[2,4,3,8]) -> (%y) { %q = Transpose(%x) {perm=" + perm +
           "} %y = Attention(%q, %q, %q) }";
  };
  expect_unchanged("read_heads_in_place", read_heads_in_place,
                   graph_of("float16", "[0,3,2,1]"));  // heads' elements apart
  expect_unchanged("read_heads_in_place", read_heads_in_place, graph_of("float16", "[1,0,2,3]"));  // heads outermost
  expect_unchanged("read_heads_in_place", read_heads_in_place, graph_of("float32", "[0,2,1,3]"));
  expect_rows("read_heads_in_place", read_heads_in_place, graph_of("float16", "[0,2,1,3]"), {0, 0, 0}, {0, 0, 0, 0});
  expect_rows("read_heads_in_place", read_heads_in_place, graph_of("bfloat16", "[1,2,0,3]"), {0, 0, 0}, {1, 1, 1, 0});
}

constexpr const char* kThree = R"(
    %wq = constant float16[4,8] [0.1,0.2,-0.3,0.4,-0.5,0.6,0.7,-0.8,0.9,1,-1.1,1.2,0.1,-0.2,0.3,0.4,0.5,0.6,-0.7,0.8,0.9,-1,1.1,1.2,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8]
    %wk = constant float16[4,8] [0.3,0.1,0.2,-0.4,0.5,0.6,0.7,-0.8,0.9,1,-1.1,1.2,0.1,-0.2,0.3,0.4,-0.5,0.6,-0.7,0.8,0.9,-1,1.1,1.2,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8]
    %wv = constant float16[4,8] [0.5,0.1,0.2,-0.4,0.5,0.6,0.7,-0.8,0.9,1,-1.1,1.2,0.1,-0.2,0.3,0.4,-0.5,0.6,-0.7,0.8,0.9,-1,1.1,1.2,0.1,0.2,0.3,0.4,0.5,0.6,0.7,-0.8]
    %bq = constant float16[8] [1,2,3,4,5,6,7,8]
    %bv = constant float16[8] [1,-2,3,-4,5,-6,7,-8]
)";

TEST(MergeProjections, ThreeProductsBecomeOne) {
  const std::string head = "graph @g(%x: float16[N,T,4]) -> (%y) {";
  const auto graph = expect_rows("merge_projections", merge_projections, head + kThree + R"(
    %pq = MatMul(%x, %wq) @to_q
    %q = Add(%pq, %bq)
    %k = MatMul(%x, %wk) @to_k
    %pv = MatMul(%x, %wv) @to_v
    %v = Add(%bv, %pv)
    %y = Attention(%q, %k, %v) {q_num_heads=2, kv_num_heads=2}
  })",
                                 {0, 8, 16}, {0, 0, 0, 0});
  EXPECT_EQ(count(*graph, "MatMul"), 1u) << print_graph(*graph);
  EXPECT_EQ(find(*graph, "MatMul")->input(1)->type.shape.to_string(), "[4,24]");
  EXPECT_EQ(find(*graph, "MatMul")->origins, (std::vector<std::string>{"to_q", "to_k", "to_v"}));

  // Heads taken apart by views, fewer heads of K and V.
  const auto views = expect_rows("merge_projections", merge_projections, head + R"(
    %wq = constant float16[4,4] [1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7]
    %wk = constant float16[4,2] [0.5,0.25,1,2,3,4,0.5,-1]
    %wv = constant float16[4,2] [0.5,-0.25,1,-2,3,4,0.5,-1]
    %two = constant int64[4] [0,0,2,2]
    %one = constant int64[4] [0,0,1,2]
    %q1 = MatMul(%x, %wq)
    %k1 = MatMul(%x, %wk)
    %v1 = MatMul(%x, %wv)
    %q2 = Reshape(%q1, %two)
    %k2 = Reshape(%k1, %one)
    %v2 = Reshape(%v1, %one)
    %q = Transpose(%q2) {perm=[0,2,1,3]}
    %k = Transpose(%k2) {perm=[0,2,1,3]}
    %v = Transpose(%v2) {perm=[0,2,1,3]}
    %y = Attention(%q, %k, %v)
  })",
                                 {0, 4, 6}, {0, 0, 0, 0});
  EXPECT_EQ(count(*views, "MatMul"), 1u) << print_graph(*views);
}

TEST(MergeProjections, ProductsThatOthersReadOrOfOtherThingsStay) {
  const auto graph_of = [](const std::string& outputs, const std::string& second, const std::string& bias) {
    return "graph @g(%x: float16[N,T,4], %z: float16[N,T,4], %b: float16[8]) -> (" + outputs + ") {" + kThree +
           "%q = MatMul(%x, %wq) %k1 = MatMul(%" + second + ", %wk) %k = Add(%k1, " + bias +
           ") %v = MatMul(%x, %wv) %y = Attention(%q, %k, %v) {q_num_heads=2, kv_num_heads=2} }";
  };
  expect_unchanged("merge_projections", merge_projections, graph_of("%y, %k", "x", "%bq"));
  expect_unchanged("merge_projections", merge_projections, graph_of("%y, %k1", "x", "%bq"));
  expect_unchanged("merge_projections", merge_projections, graph_of("%y", "z", "%bq"));
  expect_unchanged("merge_projections", merge_projections, graph_of("%y", "x", "%b"));
  EXPECT_EQ(count(*run_on("merge_projections", merge_projections, graph_of("%y", "x", "%bq")), "MatMul"), 1u);
}

}  // namespace
}  // namespace deepjit
