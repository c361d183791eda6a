// What the files of the matmul family share: einsum.cpp registers through matmul.cpp.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_einsum_op(OpRegistry& registry);  // einsum.cpp

// NumPy broadcast of two symbolic dims or shapes; a fresh dim where neither side decides.
Dim broadcast_dim(InferContext& ctx, const Dim& a, const Dim& b);
std::vector<Dim> broadcast_dims(InferContext& ctx, const std::vector<Dim>& a, const std::vector<Dim>& b);

}  // namespace deepjit
