// RegionBuilder's places that data tells: Gather and GatherElements.
#include <algorithm>

#include "codegen/region/index_range.h"
#include "codegen/region/region_builder.h"

namespace deepjit {

std::vector<int> RegionBuilder::moving_axes(const Coords& coords) const {
  std::vector<int> axes = axes_of(coords);
  auto add = [&](int axis) {
    if (std::count(axes.begin(), axes.end(), axis) == 0) axes.push_back(axis);
  };
  std::vector<Ref> work;
  for (const Coord& c : coords) {
    if (c.index >= 0) work.push_back(c.index);
  }
  for (size_t i = 0; i < work.size(); ++i) {
    const Inst& inst = builder_.kernel.insts[static_cast<size_t>(work[i])];
    if (inst.op == Opcode::INDEX) add(inst.access);
    if (inst.op == Opcode::LOAD) {
      const Access& access = builder_.kernel.accesses[static_cast<size_t>(inst.access)];
      for (size_t axis = 0; axis < access.strides.size(); ++axis) {
        if (access.moves(axis)) add(static_cast<int>(axis));
      }
    }
    for (Ref arg : inst.args) {
      if (arg >= 0 && std::count(work.begin(), work.end(), arg) == 0) work.push_back(arg);
    }
  }
  return axes;
}

void RegionBuilder::check_indices(const RegionOp& op, const Dim& size) {
  const int source = whole_source(region_, op.inputs[1]);
  const auto operand = operand_.find(source);
  if (source < 0 || operand == operand_.end()) {
    throw Refusal{Why::VIEW_NOT_CONSTANT,
                  op.view.op + " by indices that are computed, and may lie outside of " + size.to_string(),
                  "limit the indices by Clip, or take them from an input as they are",
                  {size}};
  }
  const IndexCheck check{operand->second, quantity(size), producer_.at(op.output)};
  std::vector<IndexCheck>& checks = builder_.kernel.checks;
  const bool known = std::any_of(checks.begin(), checks.end(), [&](const IndexCheck& c) {
    return c.operand == check.operand && c.limit == check.limit;
  });
  if (!known) checks.push_back(check);
}

Coord RegionBuilder::place_told(const RegionOp& op, const Coords& where, const Dim& size, Ref guard) {
  const int value = op.inputs[1];
  const auto range = range_of(region_, value);
  if (!range || !never_above(Dim(0) - size, range->least) || !never_above(range->most, size - 1)) {
    check_indices(op, size);
  }
  if (size == 1) return {};
  const Tensor* data = region_.data[static_cast<size_t>(value)];
  if (data != nullptr && data->count() == 1) {
    const int64_t place = data->to_i64()[0];
    if (place >= 0) return shifted({}, place);
    return size.is_const() ? shifted({}, size + place) : shifted(shifted({}, size), place);
  }
  Ref place = builder_.cast(eval(value, where, guard), DType::INT64);
  if (!range || !never_above(0, range->least)) {  // from the end
    const Ref zero = builder_.constant(0, DType::INT64);
    const Ref from_front = builder_.binary(Opcode::ADD, place, this->size(size));
    place = builder_.select(less(place, zero), from_front, place);
  }
  return {{}, {}, place};
}

RegionBuilder::Ref RegionBuilder::eval_gather(const RegionOp& op, const Coords& coords, Ref guard) {
  const Shape& data = shape(op.inputs[0]);
  const auto axis = static_cast<size_t>(normalize_axis(op.view.attrs->get_int("axis", 0), data.rank()));
  const auto rank = static_cast<size_t>(shape(op.inputs[1]).rank());
  const auto at = [](size_t k) { return static_cast<std::ptrdiff_t>(k); };
  Coords where(coords.begin() + at(axis), coords.begin() + at(axis + rank));
  Coords own(coords.begin(), coords.begin() + at(axis));
  own.push_back(place_told(op, where, data[static_cast<int>(axis)], guard));
  own.insert(own.end(), coords.begin() + at(axis + rank), coords.end());
  return eval(op.inputs[0], own, guard);
}

RegionBuilder::Ref RegionBuilder::eval_gather_elements(const RegionOp& op, const Coords& coords, Ref guard) {
  const Shape& data = shape(op.inputs[0]);
  const Shape& indices = shape(op.inputs[1]);
  const int axis = normalize_axis(op.view.attrs->get_int("axis", 0), data.rank());
  for (int d = 0; d < data.rank(); ++d) {
    if (d == axis || never_above(indices[d], data[d])) continue;
    throw Refusal{Why::DIMS_NOT_EQUAL,
                  "GatherElements: cannot tell that " + indices[d].to_string() + " is within " + data[d].to_string(),
                  "",
                  {indices[d], data[d]}};
  }
  Coords own = coords;
  own[static_cast<size_t>(axis)] = place_told(op, coords, data[axis], guard);
  return eval(op.inputs[0], own, guard);
}

}  // namespace deepjit
