// Builds the instructions of a kernel: equal instructions once, constants folded where they are exact.
#pragma once

#include "codegen/kernel_ir.h"

namespace deepjit {

class IrBuilder {
 public:
  using Ref = int32_t;

  Ref constant(double value, DType type = DType::FLOAT32);
  // The number of elements of the row as a value of `type`.
  Ref row_size(DType type = DType::FLOAT32);
  // A size, and the coordinate along an axis, as INT64.
  Ref size(const Quantity& q);
  Ref index(int axis);
  // A load, with its element type as the type that it computes in. `where` is an INT64 number of elements to add to the
  // place, `guard` a BOOL: where it is false the load is not made and gives 0. Either may be -1.
  Ref load(Access access, Ref where = -1, Ref guard = -1);
  Ref cast(Ref x, DType type);
  // Rounds through `dtype`, a float type narrower than x's.
  Ref round_to(Ref x, DType dtype);
  Ref unary(Opcode op, Ref x);
  // Both of one type, or a float constant that takes the other's type.
  Ref binary(Opcode op, Ref a, Ref b);
  Ref select(Ref condition, Ref a, Ref b);
  Ref reduce(Opcode op, Ref x);
  // The instruction as it is, which another one was made from.
  Ref add_like(Inst inst) { return add(inst); }
  void store(Ref value, Access access);

  DType type(Ref x) const { return kernel.insts[static_cast<size_t>(x)].type; }

  KernelIr kernel;

 private:
  Ref add(Inst inst);
  int32_t access_index(Access access);
};

// The type that a memory type computes in; UNDEFINED when generated code does not take it.
DType compute_type(DType memory);

}  // namespace deepjit
