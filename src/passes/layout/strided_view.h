// A value seen as part of another one: through Reshape, Transpose, Slice, Split and Gather of one place, each of its
// dims walks over the elements of the value that it comes from with one stride.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace deepjit {

struct StridedView {
  struct Axis {
    Dim size, stride;  // in elements of the root; dims of size 1 have stride 0
  };
  std::vector<Axis> dims;
  Dim offset = 0;
};

// The value that `value` is a view of, one op up; nullptr when it is no view.
Value* viewed(const Value* value);

// `value` over `root`, which lies up the chain of views; nothing when some dim has more strides than one.
std::optional<StridedView> strided_view(const Value* value, const Value* root);

}  // namespace deepjit
