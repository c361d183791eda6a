// Public inputs and outputs to the runtime's views and back, with the elements of sequences and optionals.
#pragma once

#include "api/internal.h"
// internal.h comes first
#include "ops/sequence/sequence.h"

namespace deepjit {
inline namespace v1 {

// Checked for what no kernel could survive: rank, dtype, null data. `what` names the input in errors.
TensorView view_of_input(const Input& input, const std::string& what);

// The dims of a shape, at most 16 and none negative; `what` names it in errors. INPUT_SHAPE.
Dims checked_dims(const std::vector<int64_t>& shape, const std::string& what);

// A sequence or optional with copies of all elements' data: what is in a sequence may outlive the run.
Tensor copy_of_elements(const Input& input, const std::string& what, int depth = 0);

// The elements of an output that is a sequence or an optional, as public Outputs. They look into the runtime's data.
class OutputElements {
 public:
  const void* take(const TensorView& collection);

 private:
  std::vector<Output> outputs_;
  std::vector<OutputElements> inner_;
};

}  // namespace v1
}  // namespace deepjit
