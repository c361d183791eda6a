#include "codegen/ir_builder.h"

#include <algorithm>
#include <bit>

namespace deepjit {

DType compute_type(DType memory) {
  switch (memory) {
    case DType::FLOAT16:
    case DType::BFLOAT16:
    case DType::FLOAT32:
      return DType::FLOAT32;
    case DType::FLOAT64:
    case DType::INT32:
    case DType::INT64:
    case DType::BOOL:
      return memory;
    case DType::INT8:
    case DType::UINT8:
    case DType::INT16:
    case DType::UINT16:
      return DType::INT32;
    default:
      return DType::UNDEFINED;
  }
}

IrBuilder::Ref IrBuilder::add(Inst inst) {
  // Bit patterns: -0 is not 0, and NaN is itself.
  const auto same = [&](const Inst& other) {
    return inst.op == other.op && inst.type == other.type && std::equal(inst.args, inst.args + 3, other.args) &&
           inst.access == other.access && std::bit_cast<uint64_t>(inst.number) == std::bit_cast<uint64_t>(other.number);
  };
  const auto found = std::find_if(kernel.insts.begin(), kernel.insts.end(), same);
  if (found != kernel.insts.end()) return static_cast<Ref>(found - kernel.insts.begin());
  kernel.insts.push_back(inst);
  return static_cast<Ref>(kernel.insts.size()) - 1;
}

int32_t IrBuilder::access_index(Access access) {
  const auto found = std::find(kernel.accesses.begin(), kernel.accesses.end(), access);
  if (found != kernel.accesses.end()) return static_cast<int32_t>(found - kernel.accesses.begin());
  kernel.accesses.push_back(std::move(access));
  return static_cast<int32_t>(kernel.accesses.size()) - 1;
}

IrBuilder::Ref IrBuilder::constant(double value, DType type) {
  Inst inst{Opcode::CONST, type};
  inst.number = type == DType::FLOAT32 ? static_cast<double>(static_cast<float>(value)) : value;
  return add(inst);
}

IrBuilder::Ref IrBuilder::row_size(DType type) { return add({Opcode::ROW_SIZE, type}); }

IrBuilder::Ref IrBuilder::size(const Quantity& q) {
  if (q.is_const()) return constant(static_cast<double>(q.factor), DType::INT64);
  const auto found = std::find(kernel.sizes.begin(), kernel.sizes.end(), q);
  Inst inst{Opcode::SIZE, DType::INT64};
  inst.access = static_cast<int32_t>(found - kernel.sizes.begin());
  if (found == kernel.sizes.end()) kernel.sizes.push_back(q);
  return add(inst);
}

IrBuilder::Ref IrBuilder::index(int axis) {
  Inst inst{Opcode::INDEX, DType::INT64};
  inst.access = axis;
  return add(inst);
}

IrBuilder::Ref IrBuilder::load(Access access, Ref where, Ref guard) {
  Inst inst{Opcode::LOAD, compute_type(access.dtype), {where, guard, -1}};
  check_internal(inst.type != DType::UNDEFINED, "codegen: a load of a type that it does not take");
  inst.access = access_index(std::move(access));
  return add(inst);
}

IrBuilder::Ref IrBuilder::cast(Ref x, DType to) {
  if (type(x) == to) return x;
  return add({Opcode::CAST, to, {x, -1, -1}});
}

IrBuilder::Ref IrBuilder::round_to(Ref x, DType dtype) {
  Inst inst{Opcode::ROUND_TO, type(x), {x, -1, -1}};
  inst.access = static_cast<int32_t>(dtype);
  return add(inst);
}

IrBuilder::Ref IrBuilder::unary(Opcode op, Ref x) {
  const DType result = op == Opcode::NOT || op == Opcode::IS_NAN ? DType::BOOL : type(x);
  return add({op, result, {x, -1, -1}});
}

IrBuilder::Ref IrBuilder::binary(Opcode op, Ref a, Ref b) {
  const auto adapt = [&](Ref& constant_ref, Ref other) {
    const Inst inst = kernel.insts[static_cast<size_t>(constant_ref)];
    if (inst.op == Opcode::CONST && inst.type == DType::FLOAT32 && type(other) != inst.type) {
      constant_ref = constant(inst.number, type(other));
    }
  };
  adapt(a, b);
  adapt(b, a);
  check_internal(type(a) == type(b), "codegen: operands of different types");
  const bool compares = op == Opcode::EQ || op == Opcode::LT || op == Opcode::LE;
  return add({op, compares ? DType::BOOL : type(a), {a, b, -1}});
}

IrBuilder::Ref IrBuilder::select(Ref condition, Ref a, Ref b) {
  check_internal(type(condition) == DType::BOOL && type(a) == type(b), "codegen: select of different types");
  return add({Opcode::SELECT, type(a), {condition, a, b}});
}

IrBuilder::Ref IrBuilder::reduce(Opcode op, Ref x) {
  kernel.reduces = true;
  return add({op, type(x), {x, -1, -1}});
}

void IrBuilder::store(Ref value, Access access) { kernel.stores.push_back({value, access_index(std::move(access))}); }

}  // namespace deepjit
