// Reads the text form that print.h writes, for tests and for small graphs by hand.
//
// Types after names ("%c: float32[N]") are optional for node outputs. Constants may be made by a rule
// instead of data: `random(7)` or `random(7, -1, 1)` (uniform; the default is [-1, 1) for floats and 0..9
// for integers), `iota` (0, 1, 2, ...), `fill(0.5)`. `//` starts a comment.
#pragma once

#include <memory>
#include <string_view>

#include "graph/graph.h"

namespace deepjit {

// The graph with all types inferred. Throws Error(PARSE) with the line, or what inference throws.
std::unique_ptr<Graph> parse_graph(std::string_view text);

}  // namespace deepjit
