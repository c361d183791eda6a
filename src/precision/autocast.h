// Puts a float32 graph into 16 bits: convolutions, products and what stands around them; graph to graph.
//
// Needs inferred types. Stands after the rewrites and before layouts and epilogues: scales are in the weights by then
// and are rounded once, norms and activations are named and not taken for exponents and quotients, and what is fused
// later has one type. Guarantees the types and names of the graph's inputs and outputs, and that what the model
// itself types otherwise stays as it is.
//
// A node stays in float32 when its op asks for it (op_rules.h), when a constant of it would be lost (narrow.h), when a
// value was seen that does not fit, or when it only carries on what such nodes computed; Casts stand between.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace deepjit {

struct AutocastOptions {
  DType type = DType::FLOAT16;
  // The largest magnitude that each value had on samples, by name; empty: no samples.
  std::map<std::string, double> seen;
};

// Reason -> names of the ONNX nodes: "fp16: convolution", "fp32: seen values up to 8.1e+04".
using PrecisionNotes = std::map<std::string, std::vector<std::string>>;

// One graph without its bodies, as passes have it. A body without a product stays as it is.
bool autocast(Graph& graph, const AutocastOptions& options, PrecisionNotes* notes = nullptr);

// For a build in tf32: the nodes that may round operands, and the rest.
void note_tf32(Graph& graph, PrecisionNotes& notes);

}  // namespace deepjit
