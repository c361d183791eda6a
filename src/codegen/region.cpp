#include "codegen/region.h"

#include <algorithm>
#include <map>

namespace deepjit {

namespace {

constexpr size_t kMostInsts = 1500;  // of one kernel
constexpr int kMostCuts = 12;        // of axes
constexpr int kMostAgain = 40;       // rough instructions that may be computed a second time instead of stored

// A dim that the box counts through: one axis, or several after cuts.
struct Root {
  Dim extent;
  std::vector<int> axes;  // outermost first
};

// Root -> the extents that it is cut into, outermost first.
using Cuts = std::map<int, std::vector<Dim>>;

class RegionBuilder {
 public:
  RegionBuilder(const Region& region, const Cuts& cuts) : region_(region), cuts_(cuts) {
    for (size_t i = 0; i < region.ops.size(); ++i) producer_[region.ops[i].output] = static_cast<int>(i);
    builder_.kernel.inputs = static_cast<int32_t>(region.inputs.size());
    for (int value : region.inputs) operand_[value] = static_cast<int>(operand_.size());
    name_sizes();
  }

  KernelIr run() {
    const int main = main_output();
    main_coords_ = new_box(shape(main));
    const auto ref = eval(main, main_coords_, -1);
    add_store(main, ref, main_coords_);
    for (int value : region_.outputs) {
      if (value != main) store_beside(value, main);
    }
    finish();
    return std::move(builder_.kernel);
  }

  // Which root an axis belongs to, and its place there.
  std::pair<int, size_t> root_of(int axis) const {
    for (size_t r = 0; r < roots_.size(); ++r) {
      const auto at = std::find(roots_[r].axes.begin(), roots_[r].axes.end(), axis);
      if (at != roots_[r].axes.end()) return {static_cast<int>(r), static_cast<size_t>(at - roots_[r].axes.begin())};
    }
    throw Error(Code::INTERNAL, "codegen: an axis without a dim");
  }
  const std::vector<Dim>& extents() const { return extents_; }

 private:
  using Ref = IrBuilder::Ref;

  const TensorType& type(int value) const { return region_.values[static_cast<size_t>(value)]; }
  const Shape& shape(int value) const { return type(value).shape; }

  // ---- the box --------------------------------------------------------------------------------------

  // The output with the most dims; the others must fit into its box.
  int main_output() const {
    auto dims = [&](int value) {
      return std::count_if(shape(value).dims().begin(), shape(value).dims().end(),
                           [](const Dim& d) { return !(d == 1); });
    };
    return *std::max_element(region_.outputs.begin(), region_.outputs.end(),
                             [&](int a, int b) { return dims(a) < dims(b); });
  }

  // A new dim of the box and the coordinate that walks it.
  Coord new_root(const Dim& extent) {
    if (extent == 1) return {};
    const auto cut = cuts_.find(static_cast<int>(roots_.size()));
    const std::vector<Dim> factors = cut == cuts_.end() ? std::vector<Dim>{extent} : cut->second;
    Root root{extent, {}};
    Coord c;
    Dim step = 1;
    for (size_t i = factors.size(); i-- > 0;) {
      const auto axis = static_cast<int>(extents_.size() + i);
      c = c + Coord{{{axis, step}}, {}, -1};
      step = step * factors[i];
      root.axes.insert(root.axes.begin(), axis);
    }
    extents_.insert(extents_.end(), factors.begin(), factors.end());
    roots_.push_back(std::move(root));
    return c;
  }

  Coords new_box(const Shape& of) {
    Coords coords;
    for (const Dim& d : of.dims()) coords.push_back(new_root(d));
    return coords;
  }

  // ---- values at coordinates ------------------------------------------------------------------------

  // The value at a point of the box. Where `guard` (a BOOL instruction, or -1) is false, any value will do and no
  // memory is touched.
  Ref eval(int value, const Coords& coords, Ref guard) {
    const auto producer = producer_.find(value);
    if (producer == producer_.end()) return read(value, coords, guard);
    std::vector<Evaluation>& known = known_[value];
    for (const Evaluation& e : known) {
      if ((e.guard == guard || e.guard < 0) && e.coords == coords) return e.ref;
    }
    const RegionOp& op = region_.ops[static_cast<size_t>(producer->second)];
    const size_t before = builder_.kernel.insts.size();
    const Ref ref = is_view_op(op.view.op) ? eval_view(op, coords, guard) : eval_op(op, coords, guard);
    if (builder_.kernel.insts.size() > kMostInsts)
      throw Refusal{Why::REGION_TOO_LARGE, "the kernel would have too many instructions"};
    if (!known_[value].empty()) count_again(before);
    known_[value].push_back({coords, guard, ref});
    return ref;
  }

  // Work that is done at several places of the box instead of once.
  void count_again(size_t before) {
    for (size_t i = before; i < builder_.kernel.insts.size(); ++i) {
      const Opcode op = builder_.kernel.insts[i].op;
      again_ += is_transcendental(op) ? 20 : is_reduction(op) ? 2 * kMostAgain : 1;
    }
    if (again_ > kMostAgain)
      throw Refusal{Why::RECOMPUTED, "computing a value again at several places costs more than storing it"};
  }

  // Where operand i of an op is read: laid over the result from the right, or where the rule says.
  Coords operand_coords(const RegionOp& op, const ExpandRule& rule, size_t i, const Coords& result) const {
    const Shape& in = shape(op.inputs[i]);
    const Shape& out = shape(op.output);
    const int first = rule.first_dim != nullptr ? rule.first_dim(op.view, i) : out.rank() - in.rank();
    if (first < 0) throw Refusal{Why::RANK_ABOVE_RESULT, op.view.op + ": an operand has more dims than the result"};
    Coords coords(static_cast<size_t>(in.rank()));
    for (int d = 0; d < in.rank(); ++d) {
      if (in[d] == 1) continue;
      if (!(in[d] == out[first + d])) {
        throw Refusal{Why::DIMS_NOT_EQUAL,
                      op.view.op + ": cannot tell that " + in[d].to_string() + " equals " + out[first + d].to_string(),
                      "",
                      {in[d], out[first + d]}};
      }
      coords[static_cast<size_t>(d)] = result[static_cast<size_t>(first) + static_cast<size_t>(d)];
    }
    return coords;
  }

  Ref eval_op(const RegionOp& op, const Coords& coords, Ref guard) {
    const ExpandRule& rule = *find_rule(op.view.op);
    if (rule.reduced != nullptr && guard >= 0) throw Refusal{Why::ROW_CUT, op.view.op + " of a part of its rows"};
    Expansion e{builder_, op.view, {}};
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool is_axes = rule.drops_row && i > 0;
      if (op.inputs[i] < 0 || is_axes) {
        e.inputs.push_back(-1);
      } else if (rule.reduced != nullptr && i == 0) {
        e.inputs.push_back(eval(op.inputs[0], row_coords(op, rule, coords), guard));
      } else {
        e.inputs.push_back(eval(op.inputs[i], operand_coords(op, rule, i, coords), guard));
      }
    }
    e.row_index = [&] { return row_index(); };
    return rule.expand(e);
  }

  // The place within the row, all its dims counted as one.
  Ref row_index() {
    Coord c;
    Dim step = 1;
    for (size_t i = row_->size(); i-- > 0;) {
      c = c + scaled((*row_)[i].walk, step);
      step = step * (*row_)[i].extent;
    }
    return index(c);
  }

  // Where the operand of a reduction, softmax or norm is read: along the row, and elsewhere as the result.
  Coords row_coords(const RegionOp& op, const ExpandRule& rule, const Coords& result) {
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
      choose_row(dims, axes_of(kept));
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
    for (int axis : axes_of(kept)) {
      if (is_row_axis(axis)) throw Refusal{Why::REDUCTIONS_DIFFER, "a reduction inside of the rows of another"};
    }
    reductions_.push_back(axes_of(kept));
    return coords;
  }

  // The axes that a reduction over these dims goes along, when its result is read along `kept`.
  void choose_row(const std::vector<Dim>& dims, const std::vector<int>& kept) {
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

  Coord walk_of(const Root& root) const {
    Coord c;
    Dim step = 1;
    for (size_t i = root.axes.size(); i-- > 0;) {
      c = c + Coord{{{root.axes[i], step}}, {}, -1};
      step = step * extents_[static_cast<size_t>(root.axes[i])];
    }
    return c;
  }

  struct RowDim {
    Dim extent;
    Coord walk;
    std::vector<int> axes;
    bool operator==(const RowDim& o) const { return extent == o.extent && axes == o.axes; }
  };
  using Row = std::vector<RowDim>;

  void use_row(Row row) {
    if (row_ && !(*row_ == row)) throw Refusal{Why::REDUCTIONS_DIFFER, "reductions over different axes"};
    row_ = std::move(row);
  }

  bool is_row_axis(int axis) const {
    return row_ && std::any_of(row_->begin(), row_->end(),
                               [axis](const RowDim& d) { return std::count(d.axes.begin(), d.axes.end(), axis) != 0; });
  }

  // ---- views ----------------------------------------------------------------------------------------

  Ref eval_view(const RegionOp& op, const Coords& coords, Ref guard) {
    if (op.view.op == "Concat") return eval_concat(op, coords, guard);
    if (op.view.op == "Pad") return eval_pad(op, coords, guard);
    if (op.view.op == "Gather") return eval_gather(op, coords, guard);
    return eval(op.inputs[0], view_input(op.view, coords, extents_), guard);
  }

  Ref eval_concat(const RegionOp& op, const Coords& coords, Ref guard) {
    const auto axis = static_cast<size_t>(concat_axis(op.view));
    std::vector<std::pair<Ref, Ref>> parts;  // value, and the condition that the coordinate lies before its end
    Coord local = coords[axis];
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Dim& length = shape(op.inputs[i])[static_cast<int>(axis)];
      Coords own = coords;
      own[axis] = length == 1 ? Coord{} : local;
      Ref inside = guard;
      const Ref at = index(local);
      const bool last = i + 1 == op.inputs.size();
      const Ref before_end = last ? -1 : less(at, size(length));
      if (i > 0) inside = both(inside, at_least_zero(at));
      if (!last) inside = both(inside, before_end);
      parts.emplace_back(eval(op.inputs[i], own, inside), before_end);
      local = shifted(local, Dim(0) - length);
    }
    Ref result = parts.back().first;
    for (size_t i = parts.size() - 1; i-- > 0;) result = builder_.select(parts[i].second, parts[i].first, result);
    return result;
  }

  Ref eval_pad(const RegionOp& op, const Coords& coords, Ref guard) {
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

  Ref eval_gather(const RegionOp& op, const Coords& coords, Ref guard) {
    const Shape& indices = shape(op.inputs[1]);
    const auto axis =
        static_cast<size_t>(normalize_axis(op.view.attrs->get_int("axis", 0), shape(op.inputs[0]).rank()));
    const auto rank = static_cast<size_t>(indices.rank());
    const auto at = [](size_t k) { return static_cast<std::ptrdiff_t>(k); };
    const Coords where(coords.begin() + at(axis), coords.begin() + at(axis + rank));
    Coords own(coords.begin(), coords.begin() + at(axis));
    own.push_back({{}, {}, builder_.cast(eval(op.inputs[1], where, guard), DType::INT64)});
    own.insert(own.end(), coords.begin() + at(axis + rank), coords.end());
    if (shape(op.inputs[0])[static_cast<int>(axis)] == 1) own[axis] = {};
    return eval(op.inputs[0], own, guard);
  }

  Ref less(Ref a, Ref b) { return builder_.binary(Opcode::LT, a, b); }
  Ref at_least_zero(Ref a) { return builder_.binary(Opcode::LE, builder_.constant(0, DType::INT64), a); }
  Ref both(Ref a, Ref b) { return a < 0 ? b : b < 0 ? a : builder_.binary(Opcode::AND, a, b); }
  Ref size(const Dim& d) { return builder_.size(quantity(d)); }

  // The coordinate as an INT64 instruction.
  Ref index(const Coord& c) {
    Ref sum = c.index;
    auto add = [&](Ref x) { sum = sum < 0 ? x : builder_.binary(Opcode::ADD, sum, x); };
    for (const Coord::Term& t : c.terms) {
      const Ref walk = builder_.index(t.axis);
      add(t.coef == 1 ? walk : builder_.binary(Opcode::MUL, walk, size(t.coef)));
    }
    for (const Dim& part : c.offset) add(size(part));
    return sum < 0 ? builder_.constant(0, DType::INT64) : sum;
  }

  // ---- memory ---------------------------------------------------------------------------------------

  // A dim of an operand for each symbolic size.
  void name_sizes() {
    auto note = [&](int value, int operand) {
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

  // A product of sizes as the launcher computes it from the operands' dims. Symbols come first, so that N * C is the
  // same quantity whether or not some operand has a dim of that size.
  Quantity quantity(const Dim& d) const {
    if (d.is_const()) return {d.value(), {}};
    for (const auto& [dim, name] : names_) {
      if (const auto rest = Dim::exact_div(d, dim)) return quantity(*rest) * name;
    }
    throw Refusal{Why::SIZE_UNTOLD, "no operand tells the size " + d.to_string(), "", {d}};
  }

  // The index map of an operand that is read or written at these coordinates.
  Access access(int value, const Coords& coords, int operand) const {
    Access out;
    out.operand = operand;
    out.dtype = type(value).dtype;
    std::vector<Dim> steps(coords.size());
    Dim step = 1;
    for (size_t d = coords.size(); d-- > 0;) {
      steps[d] = step;
      step = step * shape(value)[static_cast<int>(d)];
    }
    for (size_t d = 0; d < coords.size(); ++d) {
      for (const Coord::Term& t : coords[d].terms) {
        if (out.strides.size() <= static_cast<size_t>(t.axis))
          out.strides.resize(static_cast<size_t>(t.axis) + 1, {0, {}});
        Quantity& stride = out.strides[static_cast<size_t>(t.axis)];
        if (!(stride == Quantity{0, {}})) throw Refusal{Why::AXIS_TWICE, "an operand that is read along a diagonal"};
        stride = quantity(steps[d]) * quantity(t.coef);
      }
      for (const Dim& part : coords[d].offset) out.add_offset(quantity(part) * quantity(steps[d]));
    }
    return out;
  }

  Ref read(int value, const Coords& coords, Ref guard) {
    const Tensor* data = region_.data[static_cast<size_t>(value)];
    if (data != nullptr && data->count() == 1 && data->dtype() != DType::INT64) {
      return builder_.constant(data->to_f64()[0], compute_type(data->dtype()));
    }
    const auto operand = operand_.find(value);
    check_internal(operand != operand_.end(), "codegen: a region reads a value that is no operand");
    Ref where = -1;
    Dim step = 1;
    for (size_t d = coords.size(); d-- > 0;) {
      if (coords[d].index >= 0) {
        const Ref part = step == 1 ? coords[d].index : builder_.binary(Opcode::MUL, coords[d].index, size(step));
        where = where < 0 ? part : builder_.binary(Opcode::ADD, where, part);
      }
      step = step * shape(value)[static_cast<int>(d)];
    }
    return builder_.load(access(value, coords, operand->second), where, guard);
  }

  void add_store(int value, Ref ref, const Coords& coords) {
    const auto at = std::find(region_.outputs.begin(), region_.outputs.end(), value) - region_.outputs.begin();
    builder_.store(ref, access(value, coords, static_cast<int>(region_.inputs.size()) + static_cast<int>(at)));
    stored_.push_back(axes_of(coords));
  }

  // An output beside the main one: stored where the others read it whole, or laid over the main one's dims in order.
  void store_beside(int value, int main) {
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

  Coords coords_like_main(int value, int main) const {
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

  // ---- the end --------------------------------------------------------------------------------------

  // Puts the axes in order, the row last, and merges neighbours that all operands walk as one.
  void finish() {
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
    const size_t parallel = kernel.collapse(outer);
    if (kernel.reduces && kernel.rank() != parallel + 1) {
      throw Refusal{Why::ROW_NOT_DENSE, "reduced axes that do not lie together in memory"};
    }
    kernel.lanes = prefers_lanes(kernel);
  }

  // Are more operands dense along the axis before the row than along the row?
  static bool prefers_lanes(const KernelIr& kernel) {
    if (!kernel.reduces || kernel.rank() < 2) return false;
    int before = 0;
    for (const Access& a : kernel.accesses) {
      const Quantity one{1, {}};
      if (a.moves_along_row()) before += (a.strides[kernel.rank() - 2] == one) - (a.strides.back() == one);
    }
    return before > 0;
  }

  // Every result, and every reduction, must vary along all outer axes: else it would be made again and again.
  void check_outer(const std::vector<int>& outer) const {
    if (!builder_.kernel.reduces) {
      for (const std::vector<int>& axes : stored_) {
        if (axes.size() != extents_.size())
          throw Refusal{Why::SMALLER_OUTPUT, "an output smaller than the other values"};
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

  struct Evaluation {
    Coords coords;
    Ref guard;
    Ref ref;
  };

  const Region& region_;
  const Cuts& cuts_;
  IrBuilder builder_;
  std::map<int, int> producer_;  // value -> op
  std::map<int, int> operand_;   // value from outside -> operand
  std::vector<std::pair<Dim, Quantity>> names_;
  std::vector<Root> roots_;
  std::vector<Dim> extents_;  // of each axis
  Coords main_coords_;
  std::optional<Row> row_;  // what reductions go along
  std::map<int, std::vector<Evaluation>> known_;
  std::vector<std::vector<int>> reductions_;  // the axes that each reduction's result varies along
  std::vector<std::vector<int>> stored_;      // the axes that each store varies along
  int again_ = 0;
};

}  // namespace

Refusal why_not_fusable(const OpView& op) { return is_view_op(op.op) ? why_not_view(op) : why_not_expand(op); }

RegionKernel build_kernel(const Region& region) {
  Cuts cuts;
  for (int attempt = 0; attempt <= kMostCuts; ++attempt) {
    RegionBuilder builder(region, cuts);
    try {
      return {builder.run(), {}};
    } catch (const Refusal& refusal) {
      return {std::nullopt, refusal};
    } catch (const AxisCut& cut) {
      const auto [root, place] = builder.root_of(cut.axis);
      std::vector<Dim>& factors = cuts[root];
      const Dim& extent = builder.extents()[static_cast<size_t>(cut.axis)];
      if (factors.empty()) factors = {extent};
      factors[place] = *Dim::exact_div(extent, cut.inner);
      factors.insert(factors.begin() + static_cast<std::ptrdiff_t>(place) + 1, cut.inner);
    }
  }
  return {std::nullopt, {Why::DIMS_REGROUPED, "its Reshapes cut the axes too often"}};
}

}  // namespace deepjit
