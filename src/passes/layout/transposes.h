// Makes Transposes cancel.
//
// Neighbours merge; and a connected region of ops that work the same on permuted axes is turned around as
// a whole when that leaves fewer transposed bytes: Transposes at its border that match vanish, others
// appear. At equal bytes a Transpose moves away from a convolution or product, whose epilogue it would block.
// Squeeze and Unsqueeze go before a Transpose, and so does a Reshape between two of them that joins dims which
// lie together; a Transpose that moves only dims of size 1 becomes a Reshape. Sizes that are not known are guessed.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool reduce_transposes(Graph& graph);

// One round over all regions (transpose_regions.cpp).
bool turn_regions(Graph& graph);

}  // namespace deepjit
