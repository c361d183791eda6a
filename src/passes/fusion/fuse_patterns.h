// Recognises ops written out by smaller ones: HardSwish, Swish, Gelu (erf and tanh forms), Relu and Clip
// from Max and Min, a square, LayerNormalization over the last axis, and Softmax.
//
// A pattern is taken only when the result has the type and shape of the input, so that a constant of higher
// rank or a broadcast inside stays what it is. NaN and infinities give what the written-out form gives.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool fuse_patterns(Graph& graph);

// The families: each returns the value that replaces the node's output, or nullptr.
Value* match_activation(Node* node);     // activation_patterns.cpp
Value* match_normalization(Node* node);  // norm_patterns.cpp

}  // namespace deepjit
