// Which ops work the same on transposed tensors, and what has to change in them. Part of transposes.
#pragma once

#include "passes/layout/permutation.h"

namespace deepjit {

// The node computes the same on inputs with permuted axes, giving permuted outputs. All its outputs have
// one rank, at least 2.
bool is_layout_agnostic(const Node& node);
// The inputs whose axes are permuted with the node (others are shapes, axes or scalars).
std::vector<size_t> permuted_inputs(const Node& node);
// Changes axes and per-axis operands: axis a becomes axis p[a]. Outputs' types are left to the caller.
void permute_node(Node* node, const Permutation& p);

// A reduction that drops its axes and so may read its input in the order `p` directly.
bool absorbs_permutation(const Node& node, const Permutation& p);

}  // namespace deepjit
