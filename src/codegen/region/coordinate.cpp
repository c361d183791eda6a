#include "codegen/region/coordinate.h"

#include <algorithm>

namespace deepjit {

bool Coord::moves(int axis) const {
  return std::any_of(terms.begin(), terms.end(), [axis](const Term& t) { return t.axis == axis; });
}

Coord operator+(Coord a, const Coord& b) {
  for (const Coord::Term& term : b.terms) {
    const auto at = std::lower_bound(a.terms.begin(), a.terms.end(), term.axis,
                                     [](const Coord::Term& t, int axis) { return t.axis < axis; });
    if (at != a.terms.end() && at->axis == term.axis) {
      at->coef = at->coef + term.coef;
    } else {
      a.terms.insert(at, term);
    }
  }
  a.offset.insert(a.offset.end(), b.offset.begin(), b.offset.end());
  check_internal(a.index < 0 || b.index < 0, "codegen: a sum of two computed indices");
  a.index = std::max(a.index, b.index);
  return a;
}

Coord scaled(Coord c, const Dim& factor) {
  check_internal(c.is_affine(), "codegen: a multiple of a computed index");
  for (Coord::Term& t : c.terms) t.coef = t.coef * factor;
  for (Dim& part : c.offset) part = part * factor;
  return c;
}

Coord shifted(Coord c, const Dim& by) {
  if (by == 0) return c;
  const auto opposite = std::find_if(c.offset.begin(), c.offset.end(), [&](const Dim& part) { return part + by == 0; });
  if (opposite != c.offset.end()) {
    c.offset.erase(opposite);
  } else {
    c.offset.push_back(by);
  }
  return c;
}

std::vector<int> axes_of(const Coords& coords) {
  std::vector<int> out;
  for (const Coord& c : coords) {
    for (const Coord::Term& t : c.terms) {
      if (std::find(out.begin(), out.end(), t.axis) == out.end()) out.push_back(t.axis);
    }
  }
  return out;
}

std::optional<Division> divide(const Coord& c, const Dim& size, const std::vector<Dim>& extents) {
  if (!c.is_affine() || !c.offset.empty()) return std::nullopt;
  Division out;
  Dim room = size - 1;  // what the largest rest leaves free
  for (const Coord::Term& t : c.terms) {
    const Dim& extent = extents[static_cast<size_t>(t.axis)];
    if (const auto times = Dim::exact_div(t.coef, size)) {
      out.quotient.terms.push_back({t.axis, *times});
      continue;
    }
    // An axis that goes on past `size` is cut there.
    if (const auto inner = Dim::exact_div(size, t.coef); inner && !(*inner == extent)) {
      if (const auto outer = Dim::exact_div(extent, *inner); outer && !(*outer == 1)) {
        out.cut = Division::Cut{t.axis, *inner};
        return out;
      }
    }
    out.rest.terms.push_back(t);
    room = room - t.coef * (extent - 1);
  }
  const auto least = room.lower_bound();
  if (!least || *least < 0) return std::nullopt;
  return out;
}

std::optional<std::vector<int>> walks_whole(const Coord& c, const Dim& size, const std::vector<Dim>& extents) {
  if (!c.is_affine() || !c.offset.empty()) return std::nullopt;
  std::vector<int> axes;
  Dim step = 1;
  std::vector<Coord::Term> left = c.terms;
  while (!left.empty()) {
    const auto next = std::find_if(left.begin(), left.end(), [&](const Coord::Term& t) { return t.coef == step; });
    if (next == left.end()) return std::nullopt;
    axes.insert(axes.begin(), next->axis);
    step = step * extents[static_cast<size_t>(next->axis)];
    left.erase(next);
  }
  if (!(step == size)) return std::nullopt;
  return axes;
}

}  // namespace deepjit
