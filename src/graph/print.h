// The graph's text form, for people and for tests: what parse.h reads back.
//
//   graph @main(%x: float32[N,3,H,W]) -> (%y) {
//     %w = constant float32[2] [1, 2]
//     %c: float32[N,64,H,W] = Conv(%x, %w) {strides=[1,1], auto_pad="NOTSET"} @conv_1
//     %a: ..., _ = Split(%c, _) {axis=1}
//     %y: float32[N,?1] = If(%cond) then { ... -> (%t) } else { ... -> (%e) }
//   }
// `_` is an omitted input or output; `@conv_1` is the node's name, left out when it is the op's. Names with
// unusual characters are quoted: %"a b". Elements of small floats are their stored bytes.
#pragma once

#include <string>

#include "graph/graph.h"

namespace deepjit {

struct PrintOptions {
  bool types = true;          // ": float32[N,3]" after each output
  int64_t max_elements = 16;  // constants with more elements are printed as a hash, which parse rejects
  bool node_names = true;
};

std::string print_graph(const Graph& graph, const PrintOptions& options = {});
// One node on one line, without its bodies.
std::string print_node(const Node& node, const PrintOptions& options = {});

}  // namespace deepjit
