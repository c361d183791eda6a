// From a region of ops to one kernel: which dims walk together, and the instructions of all ops.
//
// The dims of the largest output are the axes of the kernel's box; reductions go along some of them or add their own,
// which come last. From the outputs backwards, each value is computed at the coordinates where it is wanted: views only
// change coordinates, and what comes from outside is a load through the map that results. A Reshape may cut an axis in
// two; neighbours that all operands walk as one are merged again at the end. Two dims are taken for equal only when
// their symbolic expressions are, so the kernel holds for every shape. Where a region cannot be one kernel, `refusal`
// says why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/expand.h"
#include "codegen/region/region_views.h"

namespace deepjit {

struct RegionOp {
  OpView view;
  std::vector<int> inputs;  // value numbers; -1 for omitted operands
  int output = -1;
};

struct Region {
  std::vector<RegionOp> ops;        // in topological order
  std::vector<TensorType> values;   // by value number
  std::vector<int> inputs;          // values that come from outside: operands 0, 1, ...
  std::vector<int> outputs;         // values read outside: the operands after them
  std::vector<const Tensor*> data;  // per value: its constant data, or nullptr
};

struct RegionKernel {
  std::optional<KernelIr> kernel;
  Refusal refusal;  // when there is none
};

RegionKernel build_kernel(const Region& region);

// Why the op cannot stand in any region; empty when it can.
Refusal why_not_fusable(const OpView& op);

}  // namespace deepjit
