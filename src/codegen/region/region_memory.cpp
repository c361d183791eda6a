// RegionBuilder's memory: sizes by name, loads and stores through index maps, and the order of the axes at the end.
#include <algorithm>

#include "codegen/region/region_builder.h"

namespace deepjit {

void RegionBuilder::name_sizes() {
  auto note = [&](int value, int operand) {
    if (value < 0) return;  // omitted
    const Shape& s = shape(value);
    for (int d = 0; s.ranked() && d < s.rank(); ++d) {
      if (s[d].is_const()) continue;
      const bool known = std::any_of(names_.begin(), names_.end(), [&](const auto& n) { return n.first == s[d]; });
      if (!known) {
        names_.emplace_back(s[d], Quantity{1, {{static_cast<int16_t>(operand), static_cast<int16_t>(d)}}});
      }
    }
  };
  for (size_t i = 0; i < region_.inputs.size(); ++i) note(region_.inputs[i], static_cast<int>(i));
  for (size_t i = 0; i < region_.outputs.size(); ++i) {
    note(region_.outputs[i], static_cast<int>(region_.inputs.size() + i));
  }
  std::stable_partition(names_.begin(), names_.end(), [](const auto& name) { return name.first.is_symbol(); });
}

Quantity RegionBuilder::quantity(const Dim& d) const {
  if (d.is_const()) return {d.value(), {}};
  for (const auto& [dim, name] : names_) {
    if (const auto rest = Dim::exact_div(d, dim)) return quantity(*rest) * name;
  }
  throw Refusal{Why::SIZE_UNTOLD, "no operand tells the size " + d.to_string(), "", {d}};
}

std::vector<Quantity> RegionBuilder::steps_of(int value) const {
  const std::vector<Dim>& dims = shape(value).dims();
  std::vector<Quantity> steps(dims.size());
  for (size_t d = dims.size(); d-- > 1;) steps[d - 1] = steps[d] * quantity(dims[d]);
  return steps;
}

Access RegionBuilder::access(int value, const Coords& coords, int operand) const {
  Access out;
  out.operand = operand;
  out.dtype = type(value).dtype;
  const std::vector<Quantity> steps = steps_of(value);
  for (size_t d = 0; d < coords.size(); ++d) {
    for (const Coord::Term& t : coords[d].terms) {
      if (out.strides.size() <= static_cast<size_t>(t.axis))
        out.strides.resize(static_cast<size_t>(t.axis) + 1, {0, {}});
      Quantity& stride = out.strides[static_cast<size_t>(t.axis)];
      if (!(stride == Quantity{0, {}})) throw Refusal{Why::AXIS_TWICE, "an operand that is read along a diagonal"};
      stride = steps[d] * quantity(t.coef);
    }
    for (const Dim& part : coords[d].offset) out.add_offset(quantity(part) * steps[d]);
  }
  return out;
}

RegionBuilder::Ref RegionBuilder::read(int value, const Coords& coords, Ref guard) {
  const Tensor* data = region_.data[static_cast<size_t>(value)];
  if (data != nullptr && data->count() == 1 && data->dtype() != DType::INT64) {
    return builder_.constant(data->to_f64()[0], compute_type(data->dtype()));
  }
  const auto operand = operand_.find(value);
  check_internal(operand != operand_.end(), "codegen: a region reads a value that is no operand");
  Ref where = -1;
  const std::vector<Quantity> steps = steps_of(value);
  for (size_t d = coords.size(); d-- > 0;) {
    if (coords[d].index < 0) continue;
    const bool whole = steps[d] == Quantity{};
    const Ref part = whole ? coords[d].index : builder_.binary(Opcode::MUL, coords[d].index, builder_.size(steps[d]));
    where = where < 0 ? part : builder_.binary(Opcode::ADD, where, part);
  }
  return builder_.load(access(value, coords, operand->second), where, guard);
}

void RegionBuilder::add_store(int value, Ref ref, const Coords& coords) {
  const auto at = std::find(region_.outputs.begin(), region_.outputs.end(), value) - region_.outputs.begin();
  builder_.store(ref, access(value, coords, static_cast<int>(region_.inputs.size()) + static_cast<int>(at)));
  stored_.push_back(axes_of(coords));
}

void RegionBuilder::store_beside(int value, int main) {
  auto whole = [&](const Evaluation& e) {
    if (e.guard >= 0) return false;
    std::vector<int> seen;
    for (size_t d = 0; d < e.coords.size(); ++d) {
      const Dim& size = shape(value)[static_cast<int>(d)];
      if (size == 1 && !(e.coords[d] == Coord{})) return false;
      if (size == 1) continue;
      const auto axes = walks_whole(e.coords[d], size, extents_);
      if (!axes) return false;
      for (int axis : *axes) {
        if (std::count(seen.begin(), seen.end(), axis) != 0) return false;
        seen.push_back(axis);
      }
    }
    return true;
  };
  const std::vector<Evaluation>& known = known_[value];
  const auto found = std::find_if(known.begin(), known.end(), whole);
  if (found != known.end()) return add_store(value, found->ref, found->coords);
  const Coords coords = coords_like_main(value, main);
  const Ref ref = eval(value, coords, -1);
  add_store(value, ref, coords);
}

Coords RegionBuilder::coords_like_main(int value, int main) const {
  Coords coords;
  int m = 0;
  for (const Dim& d : shape(value).dims()) {
    coords.emplace_back();
    if (d == 1) continue;
    while (m < shape(main).rank() && !(shape(main)[m] == d)) ++m;
    if (m == shape(main).rank())
      throw Refusal{Why::NO_COMMON_BOX, "outputs that share no common box: " + shape(value).to_string() + " and " +
                                            shape(main).to_string()};
    coords.back() = main_coords_[static_cast<size_t>(m++)];
  }
  return coords;
}

void RegionBuilder::finish() {
  KernelIr& kernel = builder_.kernel;
  std::vector<int> order;
  for (int axis = 0; axis < static_cast<int>(extents_.size()); ++axis) {
    if (!is_row_axis(axis)) order.push_back(axis);
  }
  const size_t outer = order.size();
  check_outer(order);
  if (kernel.reduces) {
    for (const RowDim& d : *row_) order.insert(order.end(), d.axes.begin(), d.axes.end());
  } else {
    order.resize(extents_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  }
  for (int axis : order) kernel.extents.push_back(quantity(extents_[static_cast<size_t>(axis)]));
  for (Access& a : kernel.accesses) {
    a.strides.resize(extents_.size(), Quantity{0, {}});
    std::vector<Quantity> strides;
    for (int axis : order) strides.push_back(a.strides[static_cast<size_t>(axis)]);
    a.strides = std::move(strides);
  }
  for (Inst& inst : kernel.insts) {
    if (inst.op != Opcode::INDEX) continue;
    inst.access = static_cast<int32_t>(std::find(order.begin(), order.end(), inst.access) - order.begin());
  }
  KernelIr by_parts = kernel;
  size_t parallel = kernel.collapse(outer);
  if (kernel.reduces && kernel.rank() != parallel + 1) {
    if (!by_parts.flatten_row(outer)) {
      throw Refusal{Why::ROW_NOT_DENSE, "reduced axes that do not lie together in memory"};
    }
    kernel = std::move(by_parts);
    parallel = kernel.collapse(outer);
  }
  kernel.lanes = prefers_lanes(kernel);
}

bool RegionBuilder::prefers_lanes(const KernelIr& kernel) {
  if (!kernel.reduces || kernel.rank() < 2) return false;
  int before = 0;
  for (const Access& a : kernel.accesses) {
    const Quantity one{1, {}};
    if (a.moves_along_row()) before += (a.strides[kernel.rank() - 2] == one) - (a.strides.back() == one);
  }
  return before > 0;
}

void RegionBuilder::check_outer(const std::vector<int>& outer) const {
  if (!builder_.kernel.reduces) {
    for (const std::vector<int>& axes : stored_) {
      if (axes.size() != extents_.size()) throw Refusal{Why::SMALLER_OUTPUT, "an output smaller than the other values"};
    }
    return;
  }
  for (int axis : outer) {
    for (const std::vector<int>& axes : stored_) {
      if (std::count(axes.begin(), axes.end(), axis) == 0)
        throw Refusal{Why::SMALLER_OUTPUT, "an output smaller than the other values"};
    }
    for (const std::vector<int>& axes : reductions_) {
      if (std::count(axes.begin(), axes.end(), axis) == 0) {
        throw Refusal{Why::RECOMPUTED, "a reduction that would be computed again for each of " +
                                           extents_[static_cast<size_t>(axis)].to_string()};
      }
    }
  }
}

}  // namespace deepjit
