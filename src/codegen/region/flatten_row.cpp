// KernelIr::flatten_row: one axis of the row's axes, for rows that some operands walk by parts.
#include <algorithm>

#include "codegen/ir_builder.h"

namespace deepjit {

namespace {

using Ref = IrBuilder::Ref;

const Quantity kOne{};
const Quantity kNone{0, {}};

// Coordinates along the axes of the row, computed from the place in the row. Only what is asked for is made.
class RowPlaces {
 public:
  RowPlaces(const std::vector<Quantity>& extents, size_t first, std::vector<Quantity> sizes)
      : extents_(extents), first_(first) {
    b.kernel.sizes = std::move(sizes);
  }

  Ref along(size_t axis) {
    const Ref own = quotient(axis);
    if (axis == first_) return own;
    const Ref before = b.binary(Opcode::MUL, quotient(axis - 1), b.size(extents_[axis]));
    return b.binary(Opcode::SUB, own, before);
  }

  // The place of an operand with these strides.
  Ref of(const Access& access) {
    Ref sum = -1;
    for (size_t axis = first_; axis < extents_.size(); ++axis) {
      const Quantity& stride = access.strides[axis];
      if (stride == kNone) continue;
      const Ref part = stride == kOne ? along(axis) : b.binary(Opcode::MUL, along(axis), b.size(stride));
      sum = sum < 0 ? part : b.binary(Opcode::ADD, sum, part);
    }
    return sum;
  }

  IrBuilder b;

 private:
  // The place divided by what lies behind the axis. In double: (i + 1/2) / n rounds to no other whole number.
  Ref quotient(size_t axis) {
    Quantity inner;
    for (size_t i = axis + 1; i < extents_.size(); ++i) inner = inner * extents_[i];
    const Ref place = b.index(static_cast<int>(first_));
    if (inner == kOne) return place;
    const Ref centre = b.binary(Opcode::ADD, b.cast(place, DType::FLOAT64), b.constant(0.5, DType::FLOAT64));
    const Ref by = b.unary(Opcode::RECIPROCAL, b.cast(b.size(inner), DType::FLOAT64));
    return b.cast(b.unary(Opcode::FLOOR, b.binary(Opcode::MUL, centre, by)), DType::INT64);
  }

  const std::vector<Quantity>& extents_;
  size_t first_;
};

bool walks_as_one(const Access& a, const std::vector<Quantity>& extents, size_t first) {
  for (size_t i = first + 1; i < extents.size(); ++i) {
    if (!(a.strides[i - 1] == a.strides[i] * extents[i])) return false;
  }
  return true;
}

}  // namespace

bool KernelIr::flatten_row(size_t parallel) {
  std::vector<bool> by_parts;
  for (const Access& a : accesses) {
    by_parts.push_back(!walks_as_one(a, extents, parallel));
    if (by_parts.back() && !(a.strides.back() == kNone)) return false;
  }
  const auto is_by_parts = [&](int32_t access) { return by_parts[static_cast<size_t>(access)]; };
  if (std::any_of(stores.begin(), stores.end(), [&](const Store& s) { return is_by_parts(s.access); })) return false;
  RowPlaces places(extents, parallel, sizes);
  std::vector<Ref> place(insts.size(), -1);  // of what is a coordinate, or is read at one
  for (size_t i = 0; i < insts.size(); ++i) {
    const Inst& inst = insts[i];
    if (inst.op == Opcode::INDEX && static_cast<size_t>(inst.access) >= parallel) {
      place[i] = places.along(static_cast<size_t>(inst.access));
    } else if (inst.op == Opcode::LOAD && is_by_parts(inst.access)) {
      if (inst.args[0] >= 0) return false;
      place[i] = places.of(accesses[static_cast<size_t>(inst.access)]);
    }
  }
  std::vector<Inst> out = places.b.kernel.insts;
  std::vector<Ref> moved(insts.size());
  for (size_t i = 0; i < insts.size(); ++i) {
    if (insts[i].op == Opcode::INDEX && place[i] >= 0) {
      moved[i] = place[i];
      continue;
    }
    Inst inst = insts[i];
    for (Ref& arg : inst.args) arg = arg < 0 ? arg : moved[static_cast<size_t>(arg)];
    if (place[i] >= 0) inst.args[0] = place[i];
    moved[i] = static_cast<Ref>(out.size());
    out.push_back(inst);
  }
  insts = std::move(out);
  sizes = places.b.kernel.sizes;
  for (Store& s : stores) s.value = moved[static_cast<size_t>(s.value)];
  for (size_t k = 0; k < accesses.size(); ++k) {
    std::vector<Quantity>& strides = accesses[k].strides;
    strides[parallel] = by_parts[k] ? kNone : strides.back();
    strides.resize(parallel + 1);
  }
  for (size_t i = parallel + 1; i < extents.size(); ++i) extents[parallel] = extents[parallel] * extents[i];
  extents.resize(parallel + 1);
  return true;
}

}  // namespace deepjit
