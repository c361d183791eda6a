#include "passes/layout/strided_view.h"

#include <algorithm>
#include <array>

#include "ops/op.h"
#include "passes/edit.h"
#include "passes/layout/permutation.h"

namespace deepjit {

namespace {

using Axis = StridedView::Axis;

// Each dim of a value as the axes of the root that it walks over, the slowest first.
struct Walk {
  std::vector<std::vector<Axis>> dims;
  Dim offset = 0;
};

constexpr std::array kRegrouping = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};

bool regroups(const std::string& op) {
  return std::find(kRegrouping.begin(), kRegrouping.end(), op) != kRegrouping.end();
}

// Axes whose elements follow each other as those of one longer axis would are one.
std::vector<Axis> merged(const std::vector<Axis>& axes) {
  std::vector<Axis> out;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!out.empty() && out.back().stride == axis.size * axis.stride) {
      out.back() = {out.back().size * axis.size, axis.stride};
    } else {
      out.push_back(axis);
    }
  }
  return out;
}

// Takes the axes of one dim of `size` elements from the front of `axes`; false when they do not divide so.
bool take(const Dim& size, std::vector<Axis>& axes, std::vector<Axis>& dim) {
  Dim left = size;
  while (!(left == 1)) {
    if (axes.empty()) return false;
    Axis& first = axes.front();
    if (const auto rest = Dim::exact_div(left, first.size)) {
      dim.push_back(first);
      left = *rest;
      axes.erase(axes.begin());
    } else if (const auto inner = Dim::exact_div(first.size, left)) {
      dim.push_back({left, first.stride * *inner});
      first.size = *inner;
      left = 1;
    } else {
      return false;
    }
  }
  return true;
}

bool regroup(Walk& walk, const Shape& to) {
  std::vector<Axis> axes;
  for (const auto& dim : walk.dims) axes.insert(axes.end(), dim.begin(), dim.end());
  axes = merged(axes);
  walk.dims.clear();
  for (const Dim& size : to.dims()) {
    walk.dims.emplace_back();
    if (!take(size, axes, walk.dims.back())) return false;
  }
  return axes.empty();
}

// Keeps `size` places of a dim from `start` on.
bool cut(Walk& walk, size_t dim, const Dim& start, const Dim& size) {
  std::vector<Axis> axes = merged(walk.dims[dim]);
  if (axes.size() > 1) return false;
  if (!axes.empty()) {
    walk.offset = walk.offset + start * axes[0].stride;
    axes[0].size = size;
  }
  walk.dims[dim] = axes;
  return true;
}

bool slice(Walk& walk, const Node& node, const Value& out) {
  const auto starts = known_ints(node.input(1));
  const auto axes = node.inputs.size() > 3 ? known_ints(node.input(3)) : std::nullopt;
  const auto steps = node.inputs.size() > 4 && node.input(4) != nullptr ? known_ints(node.input(4)) : std::nullopt;
  if (!starts || !axes || axes->size() != starts->size()) return false;
  for (size_t i = 0; i < axes->size(); ++i) {
    if ((steps && (*steps)[i] != 1) || (node.inputs.size() > 4 && node.input(4) != nullptr && !steps)) return false;
    const int axis = normalize_axis((*axes)[i], out.type.shape.rank());
    const Dim& whole = node.input(0)->type.shape[axis];
    int64_t start = (*starts)[i];
    if (start < 0 && !whole.is_const()) return false;
    if (start < 0) start = std::max<int64_t>(0, start + whole.value());
    if (whole.is_const()) start = std::min(start, whole.value());
    if (!cut(walk, static_cast<size_t>(axis), start, out.type.shape[axis])) return false;
  }
  return true;
}

bool split(Walk& walk, const Node& node, const Value& out) {
  const int axis = normalize_axis(node.attrs.get_int("axis", 0), out.type.shape.rank());
  Dim start = 0;
  for (const Value* part : node.outputs) {
    if (part == &out) return cut(walk, static_cast<size_t>(axis), start, out.type.shape[axis]);
    if (!ranked(part)) return false;
    start = start + part->type.shape[axis];
  }
  return false;
}

bool gather(Walk& walk, const Node& node) {
  const auto index = known_ints(node.input(1));
  if (!index || index->size() != 1 || !ranked(node.input(1))) return false;
  const int axis = normalize_axis(node.attrs.get_int("axis", 0), node.input(0)->type.shape.rank());
  const Dim& whole = node.input(0)->type.shape[axis];
  int64_t place = (*index)[0];
  if (!whole.is_const() && place < 0) return false;
  if (place < 0) place += whole.value();
  if (!whole.is_const() || place < 0 || place >= whole.value()) return false;
  if (!cut(walk, static_cast<size_t>(axis), place, 1)) return false;
  const auto at = walk.dims.begin() + axis;
  at->clear();
  if (node.input(1)->type.shape.rank() == 0) walk.dims.erase(at);
  return node.input(1)->type.shape.rank() <= 1;
}

bool follow(Walk& walk, const Node& node, const Value& out) {
  if (regroups(node.op)) return regroup(walk, out.type.shape);
  if (node.op == "Transpose") {
    Walk turned{{}, walk.offset};
    for (int64_t axis : perm_of(node)) turned.dims.push_back(walk.dims[static_cast<size_t>(axis)]);
    walk = std::move(turned);
    return true;
  }
  if (node.op == "Slice") return slice(walk, node, out);
  if (node.op == "Split") return split(walk, node, out);
  return gather(walk, node);
}

bool walk_to(const Value* value, const Value* root, Walk& walk) {
  if (!ranked(value)) return false;
  if (value == root) {
    Dim stride = 1;
    for (int i = value->type.shape.rank(); i-- > 0;) {
      const Dim& size = value->type.shape[i];
      walk.dims.insert(walk.dims.begin(), std::vector<Axis>{});
      if (!(size == 1)) walk.dims.front().push_back({size, stride});
      stride = stride * size;
    }
    return true;
  }
  const Value* source = viewed(value);
  return source != nullptr && walk_to(source, root, walk) && follow(walk, *value->producer, *value);
}

}  // namespace

Value* viewed(const Value* value) {
  static constexpr std::array kViews = {"Transpose", "Slice", "Split", "Gather"};
  if (value == nullptr || value->producer == nullptr) return nullptr;
  const Node& node = *value->producer;
  const bool is_view = regroups(node.op) || std::find(kViews.begin(), kViews.end(), node.op) != kViews.end();
  return is_view && ranked(node.input(0)) && !node.input(0)->is_constant() ? node.input(0) : nullptr;
}

std::optional<StridedView> strided_view(const Value* value, const Value* root) {
  Walk walk;
  if (!walk_to(value, root, walk)) return std::nullopt;
  StridedView view;
  view.offset = walk.offset;
  for (const auto& dim : walk.dims) {
    const std::vector<Axis> axes = merged(dim);
    if (axes.size() > 1) return std::nullopt;
    view.dims.push_back(axes.empty() ? Axis{1, 0} : axes[0]);
  }
  return view;
}

}  // namespace deepjit
