// Compares what a user op gave with what it should give.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.h"

namespace deepjit {

struct OpComparison {
  std::string op, how, output, source;  // "my.ops::Swish", "step by step", "y", "the reference"
  const std::vector<std::string>& inputs;
  const std::vector<TensorView>& fed;
  double tolerance = 0;  // 0: by the type
  bool rows = false;     // errors are relative to the largest value, not to each
};

// The largest error. Throws RUN_VALUE with the first element that differs, its value, the right one and the operands;
// or with shapes that differ. NaN and infinities must be the same. Each element must be that of one of `rights`, which
// may have another numeric type than `got`: they are rounded to that of `got`. The first of them is told.
double compare_op_output(const OpComparison& comparison, const TensorView& got, const std::vector<TensorView>& rights);

}  // namespace deepjit
