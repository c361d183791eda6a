// The edges of a graph along which data moves: from the node that computes a value to the node that reads it.
//
// Views that cost nothing are looked through, so an edge leads from one kernel to another. What is known when shapes
// are bound (sizes, axes) moves no data and makes no edge.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace deepjit {

struct Edge {
  const Value* value = nullptr;  // what the producer writes
  const Node* producer = nullptr;
  const Node* consumer = nullptr;
  std::vector<const Node*> views;  // between them, in order
  bool gives_shape = false;        // the consumer's shape rule reads the elements
  bool in_body = false;            // a node in the consumer's bodies reads it
};

std::vector<Edge> data_edges(const Graph& graph);

// What an edge costs that takes a value of this type through memory; `with_write`: nothing else has it written.
// The symbol "?" when nobody can tell.
Dim bytes_of(const TensorType& type, bool with_write);

// A view that is no step of its own: the input's bytes under another shape.
bool is_alias(const std::string& op);

}  // namespace deepjit
