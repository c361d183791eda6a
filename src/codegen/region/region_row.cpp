// RegionBuilder's rows: which axes reductions, softmax and norms go along.
#include <algorithm>

#include "codegen/region/region_builder.h"

namespace deepjit {

RegionBuilder::Ref RegionBuilder::row_index() {
  Coord c;
  Dim step = 1;
  for (size_t i = row_->size(); i-- > 0;) {
    c = c + scaled((*row_)[i].walk, step);
    step = step * (*row_)[i].extent;
  }
  return index(c);
}

Coords RegionBuilder::row_coords(const RegionOp& op, const ExpandRule& rule, const Coords& result) {
  const Shape& in = shape(op.inputs[0]);
  const std::vector<int> reduced = rule.reduced(op.view);
  auto is_reduced = [&](int d) { return std::count(reduced.begin(), reduced.end(), d) != 0; };
  Coords coords(static_cast<size_t>(in.rank()));
  Coords kept;
  const bool keeps_rank = !rule.drops_row || shape(op.output).rank() == in.rank();
  size_t next = 0;
  for (int d = 0; d < in.rank(); ++d) {
    if (is_reduced(d)) {
      next += keeps_rank ? 1 : 0;
      continue;
    }
    coords[static_cast<size_t>(d)] = result[next++];
    kept.push_back(coords[static_cast<size_t>(d)]);
  }
  std::vector<Dim> dims;
  for (int d : reduced) {
    if (!(in[d] == 1)) dims.push_back(in[d]);
  }
  if (rule.drops_row) {
    choose_row(dims, moving_axes(kept));
  } else {
    Row row;
    for (int d : reduced) {
      if (in[d] == 1) continue;
      const auto axes = walks_whole(result[static_cast<size_t>(d)], in[d], extents_);
      if (!axes) throw Refusal{Why::ROW_CUT, op.view.op + " of rows that are cut or moved"};
      row.push_back({in[d], result[static_cast<size_t>(d)], *axes});
    }
    use_row(std::move(row));
  }
  size_t at = 0;
  for (int d : reduced) {
    if (!(in[d] == 1)) coords[static_cast<size_t>(d)] = (*row_)[at++].walk;
  }
  for (int axis : moving_axes(kept)) {
    if (is_row_axis(axis)) throw Refusal{Why::REDUCTIONS_DIFFER, "a reduction inside of the rows of another"};
  }
  reductions_.push_back(moving_axes(kept));
  return coords;
}

void RegionBuilder::choose_row(const std::vector<Dim>& dims, const std::vector<int>& kept) {
  if (row_) {
    bool same = row_->size() == dims.size();
    for (size_t i = 0; same && i < dims.size(); ++i) same = (*row_)[i].extent == dims[i];
    if (!same) throw Refusal{Why::REDUCTIONS_DIFFER, "reductions over different axes"};
    return;
  }
  // Dims of the box that the result does not move along: what is read before and after the reduction is one row.
  Row row;
  std::vector<size_t> taken;
  for (const Dim& d : dims) {
    for (size_t r = 0; r < roots_.size(); ++r) {
      const bool used = std::any_of(roots_[r].axes.begin(), roots_[r].axes.end(),
                                    [&](int axis) { return std::count(kept.begin(), kept.end(), axis) != 0; });
      if (used || !(roots_[r].extent == d) || std::count(taken.begin(), taken.end(), r) != 0) continue;
      taken.push_back(r);
      row.push_back({d, walk_of(roots_[r]), roots_[r].axes});
      break;
    }
  }
  if (row.size() != dims.size()) {
    row.clear();
    for (const Dim& d : dims) {
      const Coord walk = new_root(d);
      row.push_back({d, walk, roots_.back().axes});
    }
  }
  use_row(std::move(row));
}

Coord RegionBuilder::walk_of(const Root& root) const {
  Coord c;
  Dim step = 1;
  for (size_t i = root.axes.size(); i-- > 0;) {
    c = c + Coord{{{root.axes[i], step}}, {}, -1};
    step = step * extents_[static_cast<size_t>(root.axes[i])];
  }
  return c;
}

void RegionBuilder::use_row(Row row) {
  if (row_ && !(*row_ == row)) throw Refusal{Why::REDUCTIONS_DIFFER, "reductions over different axes"};
  row_ = std::move(row);
}

bool RegionBuilder::is_row_axis(int axis) const {
  return row_ && std::any_of(row_->begin(), row_->end(),
                             [axis](const RowDim& d) { return std::count(d.axes.begin(), d.axes.end(), axis) != 0; });
}

}  // namespace deepjit
