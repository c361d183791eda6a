// From a region of ops to one kernel: which dims walk together, and the instructions of all ops.
//
// Every dim of every value in the region is a variable; each op says which of them are the same axis (union-find).
// The resulting classes are the axes of the kernel's box, the reduced ones last. Two dims are taken for equal
// only when their symbolic expressions are, so the kernel holds for every shape. Where a region cannot be one
// kernel, `refusal` says why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/expand.h"

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

// True for ops that a region absorbs as index maps: Transpose, Squeeze, Unsqueeze, Reshape and Flatten that only add or
// drop dims of size 1, Expand.
bool is_view_op(const std::string& op);

// Why the op cannot stand in any region; empty when it can.
Refusal why_not_fusable(const OpView& op);

}  // namespace deepjit
