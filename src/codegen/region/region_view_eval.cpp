// RegionBuilder's views: values at the coordinates that a view maps to, and conditions where it has parts.
#include <algorithm>

#include "codegen/region/region_builder.h"

namespace deepjit {

RegionBuilder::Ref RegionBuilder::eval_view(const RegionOp& op, const Coords& coords, Ref guard) {
  if (op.view.op == "Concat") return eval_concat(op, coords, guard);
  if (op.view.op == "Pad") return eval_pad(op, coords, guard);
  if (op.view.op == "Gather") return eval_gather(op, coords, guard);
  if (op.view.op == "GatherElements") return eval_gather_elements(op, coords, guard);
  if (op.view.op == "Resize") return eval_resize(op, coords, guard);
  if (op.view.op == "Trilu") return eval_trilu(op, coords, guard);
  return eval(op.inputs[0], view_input(op.view, coords, extents_), guard);
}

RegionBuilder::Ref RegionBuilder::eval_concat(const RegionOp& op, const Coords& coords, Ref guard) {
  const auto axis = static_cast<size_t>(concat_axis(op.view));
  std::vector<std::pair<Ref, Ref>> parts;  // value, and the condition that the coordinate lies before its end
  std::vector<Coord> local = {coords[axis]};
  std::vector<Ref> before_end;
  std::vector<Ref> from_begin = {-1};
  for (size_t i = 0; i + 1 < op.inputs.size(); ++i) {
    const Dim& length = shape(op.inputs[i])[static_cast<int>(axis)];
    before_end.push_back(less(index(local.back()), size(length)));
    local.push_back(shifted(local.back(), Dim(0) - length));
    from_begin.push_back(at_least_zero(index(local.back())));
  }
  note_parts(before_end, from_begin);
  before_end.push_back(-1);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Coords own = coords;
    own[axis] = shape(op.inputs[i])[static_cast<int>(axis)] == 1 ? Coord{} : local[i];
    parts.emplace_back(eval(op.inputs[i], own, both(both(guard, from_begin[i]), before_end[i])), before_end[i]);
  }
  Ref result = parts.back().first;
  for (size_t i = parts.size() - 1; i-- > 0;) result = builder_.select(parts[i].second, parts[i].first, result);
  return result;
}

RegionBuilder::Ref RegionBuilder::eval_pad(const RegionOp& op, const Coords& coords, Ref guard) {
  const PadWidths widths = pad_widths(op.view);
  Coords own = coords;
  Ref inside = -1;
  for (size_t d = 0; d < coords.size(); ++d) {
    own[d] = shifted(coords[d], -widths.before[d]);
    const Ref at = widths.before[d] > 0 || widths.after[d] > 0 ? index(own[d]) : -1;
    if (widths.before[d] > 0) inside = both(inside, at_least_zero(at));
    if (widths.after[d] > 0) inside = both(inside, less(at, size(shape(op.inputs[0])[static_cast<int>(d)])));
    if (shape(op.inputs[0])[static_cast<int>(d)] == 1) own[d] = {};
  }
  const DType computed = compute_type(type(op.output).dtype);
  const bool given = op.inputs.size() > 2 && op.inputs[2] >= 0;
  const Ref value = given ? builder_.cast(eval(op.inputs[2], {}, -1), computed) : builder_.constant(0, computed);
  if (inside < 0) return eval(op.inputs[0], own, guard);
  return builder_.select(inside, eval(op.inputs[0], own, both(guard, inside)), value);
}

// A triangle of the last two dims, and zeros.
RegionBuilder::Ref RegionBuilder::eval_trilu(const RegionOp& op, const Coords& coords, Ref guard) {
  const Ref row = index(coords[coords.size() - 2]);
  const Ref column = index(coords.back());
  constexpr int64_t kFar = int64_t{1} << 40;
  const bool shifts = op.inputs.size() > 1 && op.inputs[1] >= 0;
  const int64_t k = shifts ? std::clamp(op.view.constants[1]->to_i64()[0], -kFar, kFar) : 0;
  const Ref by = builder_.constant(static_cast<double>(k), DType::INT64);
  const Ref diagonal = builder_.binary(Opcode::ADD, row, by);
  const bool upper = op.view.attrs->get_int("upper", 1) != 0;
  const Ref inside = builder_.binary(Opcode::LE, upper ? diagonal : column, upper ? column : diagonal);
  const Ref zero = builder_.constant(0, compute_type(type(op.output).dtype));
  return builder_.select(inside, eval(op.inputs[0], coords, both(guard, inside)), zero);
}

RegionBuilder::Ref RegionBuilder::index(const Coord& c) {
  Ref sum = c.index;
  auto add = [&](Ref x) { sum = sum < 0 ? x : builder_.binary(Opcode::ADD, sum, x); };
  for (const Coord::Term& t : c.terms) {
    const Ref walk = builder_.index(t.axis);
    add(t.coef == 1 ? walk : builder_.binary(Opcode::MUL, walk, size(t.coef)));
  }
  for (const Dim& part : c.offset) add(size(part));
  return sum < 0 ? builder_.constant(0, DType::INT64) : sum;
}

}  // namespace deepjit
