// Axis permutations: a Transpose with `perm` has out.dims[i] == in.dims[perm[i]].
#pragma once

#include "graph/graph.h"

namespace deepjit {

using Permutation = std::vector<int64_t>;

bool is_identity(const Permutation& p);
Permutation inverse(const Permutation& p);
// Transpose by `first`, then by `second`, is one Transpose by this.
Permutation compose(const Permutation& first, const Permutation& second);
// The perm of a Transpose node (reversed axes when the attribute is absent).
Permutation perm_of(const Node& transpose);
Shape permute(const Shape& shape, const Permutation& p);
// The order of the dims other than 1 stays: the bytes do not move.
bool moves_nothing(const Shape& shape, const Permutation& p);
// Bytes that a Transpose moves, with a guess for unknown dims; 0 when it moves nothing.
double transposed_bytes(const TensorType& type, const Permutation& p);

}  // namespace deepjit
