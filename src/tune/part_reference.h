// Checking a part of a large result: of a step whose first dim only repeats what it does - the images of a batch, the
// rows of a product - the reference computes the last places along it. The kernel still runs whole.
#pragma once

#include "kernels/kernel.h"

namespace deepjit {

// How many of the last places along the first dim of the result to check; 0: all.
int64_t places_to_check(const StepShape& shape);

// The last places along the first dim, as a tensor of their own.
Tensor last_places(const Tensor& tensor, int64_t count);

// The reference's results for these places.
std::vector<Tensor> reference_of_places(const StepShape& shape, const std::vector<Tensor>& inputs, int64_t count);

}  // namespace deepjit
