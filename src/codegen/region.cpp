#include "codegen/region.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace deepjit {

namespace {

bool is_one(const Dim& d) { return d == 1; }

// One place where a value's dims meet the box: a value made inside, or one use of a value from outside.
struct Place {
  int value = -1;
  std::vector<int> dims;  // variables; -1 for dims of size 1
};

class RegionBuilder {
 public:
  // `shared`: all uses of a value from outside lie in one place of the box, so that what is read by a reduction and
  // after it is one row. Otherwise each use has a place of its own: the same bias may lie along different axes.
  RegionBuilder(const Region& region, bool shared)
      : region_(region), shared_(shared), made_(region.values.size(), -1), outside_(region.values.size(), -1) {}

  KernelIr run() {
    for (const RegionOp& op : region_.ops) relate(op);
    find_axes();
    builder_.kernel.inputs = static_cast<int32_t>(region_.inputs.size());
    for (size_t i = 0; i < region_.ops.size(); ++i) expand(i);
    for (int value : region_.outputs) store(value);
    collapse();
    return std::move(builder_.kernel);
  }

 private:
  // ---- which dims are one axis ----------------------------------------------------------------------

  int find(int variable) const {
    while (parents_[static_cast<size_t>(variable)] != variable) variable = parents_[static_cast<size_t>(variable)];
    return variable;
  }

  Place new_place(int value) {
    Place place{value, {}};
    for (const Dim& d : shape(value).dims()) {
      place.dims.push_back(is_one(d) ? -1 : static_cast<int>(parents_.size()));
      if (is_one(d)) continue;
      parents_.push_back(static_cast<int>(parents_.size()));
      extents_.push_back(d);
    }
    return place;
  }

  const Shape& shape(int value) const { return region_.values[static_cast<size_t>(value)].shape; }

  void unify(int a, int b, const std::string& op) {
    if (a < 0 || b < 0) return;
    const Dim& x = extents_[static_cast<size_t>(a)];
    const Dim& y = extents_[static_cast<size_t>(b)];
    if (!(x == y)) {
      throw Refusal{
          Why::DIMS_NOT_EQUAL, op + ": cannot tell that " + x.to_string() + " equals " + y.to_string(), "", {x, y}};
    }
    parents_[static_cast<size_t>(find(a))] = find(b);
  }

  // The place where operand i of op k is read.
  int input_place(const RegionOp& op, size_t i) {
    const int value = op.inputs[i];
    const int made = made_[static_cast<size_t>(value)];
    if (made >= 0) return made;
    int& place = outside_[static_cast<size_t>(value)];
    if (place >= 0 && shared_) return place;
    places_.push_back(new_place(value));
    return place = static_cast<int>(places_.size()) - 1;
  }

  void relate(const RegionOp& op) {
    std::vector<int> used(op.inputs.size(), -1);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] >= 0 && reads(op, i)) used[i] = input_place(op, i);
    }
    places_.push_back(new_place(op.output));
    const int out = static_cast<int>(places_.size()) - 1;
    made_[static_cast<size_t>(op.output)] = out;
    uses_.push_back(used);
    if (is_view_op(op.view.op)) return relate_view(op, used[0], out);
    const ExpandRule* rule = find_rule(op.view.op);
    if (rule->reduced != nullptr) return relate_row(op, *rule, used, out);
    for (size_t i = 0; i < used.size(); ++i) {
      if (used[i] >= 0) align(op, *rule, i, used[i], out);
    }
  }

  // Shape operands and reduction axes are not data.
  static bool reads(const RegionOp& op, size_t i) {
    if (is_view_op(op.view.op)) return i == 0;
    return !(find_rule(op.view.op)->drops_row && i > 0);
  }

  // Lays operand i over the output, from the right or where the rule says.
  void align(const RegionOp& op, const ExpandRule& rule, size_t i, int in, int out) {
    const std::vector<int> in_dims = places_[static_cast<size_t>(in)].dims;
    const std::vector<int> out_dims = places_[static_cast<size_t>(out)].dims;
    const int first = rule.first_dim != nullptr ? rule.first_dim(op.view, i)
                                                : static_cast<int>(out_dims.size()) - static_cast<int>(in_dims.size());
    if (first < 0) throw Refusal{Why::RANK_ABOVE_RESULT, op.view.op + ": an operand has more dims than the result"};
    for (size_t d = 0; d < in_dims.size(); ++d) unify(in_dims[d], out_dims[static_cast<size_t>(first) + d], op.view.op);
  }

  void relate_row(const RegionOp& op, const ExpandRule& rule, const std::vector<int>& used, int out) {
    const std::vector<int> in_dims = places_[static_cast<size_t>(used[0])].dims;
    const std::vector<int> out_dims = places_[static_cast<size_t>(out)].dims;
    const std::vector<int> reduced = rule.reduced(op.view);
    std::vector<int> variables;
    size_t next = 0;
    for (size_t d = 0; d < in_dims.size(); ++d) {
      const bool gone = std::count(reduced.begin(), reduced.end(), static_cast<int>(d)) != 0;
      if (gone && in_dims[d] >= 0) variables.push_back(in_dims[d]);
      if (gone && rule.drops_row) {
        if (out_dims.size() == in_dims.size()) ++next;
        continue;
      }
      unify(in_dims[d], out_dims[next++], op.view.op);
    }
    reductions_.push_back(variables);
    for (size_t i = 1; i < used.size(); ++i) {
      if (used[i] >= 0) align(op, rule, i, used[i], out);
    }
  }

  void relate_view(const RegionOp& op, int in, int out) {
    const std::vector<int> in_dims = places_[static_cast<size_t>(in)].dims;
    const std::vector<int> out_dims = places_[static_cast<size_t>(out)].dims;
    if (op.view.op == "Transpose") {
      std::vector<int64_t> perm = op.view.attrs->get_ints("perm");
      for (size_t d = 0; d < out_dims.size(); ++d) {
        const size_t from = perm.empty() ? out_dims.size() - 1 - d : static_cast<size_t>(perm[d]);
        unify(in_dims[from], out_dims[d], op.view.op);
      }
      return;
    }
    if (op.view.op == "Expand") {
      const size_t first = out_dims.size() - in_dims.size();
      for (size_t d = 0; d < in_dims.size(); ++d) unify(in_dims[d], out_dims[first + d], op.view.op);
      return;
    }
    std::vector<int> from;
    std::vector<int> to;
    std::copy_if(in_dims.begin(), in_dims.end(), std::back_inserter(from), [](int v) { return v >= 0; });
    std::copy_if(out_dims.begin(), out_dims.end(), std::back_inserter(to), [](int v) { return v >= 0; });
    if (from.size() != to.size())
      throw Refusal{Why::DIMS_REGROUPED, op.view.op + " merges or splits dims: " + shape(op.inputs[0]).to_string() +
                                             " to " + shape(op.output).to_string()};
    for (size_t d = 0; d < from.size(); ++d) unify(from[d], to[d], op.view.op);
  }

  // ---- the box --------------------------------------------------------------------------------------

  std::vector<int> classes(const Place& place) const {
    std::vector<int> out;
    for (int v : place.dims) {
      if (v >= 0) out.push_back(find(v));
    }
    return out;
  }

  void find_axes() {
    std::set<int> reduced;
    for (size_t i = 0; i < reductions_.size(); ++i) {
      std::set<int> roots;
      for (int v : reductions_[i]) roots.insert(find(v));
      if (i > 0 && roots != reduced) throw Refusal{Why::REDUCTIONS_DIFFER, "reductions over different axes"};
      reduced = roots;
    }
    const Place* widest = nullptr;
    for (const Place& place : places_) {
      const std::vector<int> own = classes(place);
      if (std::set<int>(own.begin(), own.end()).size() != own.size())
        throw Refusal{Why::AXIS_TWICE, "an operand walks one axis twice"};
      if (widest == nullptr || own.size() > classes(*widest).size()) widest = &place;
    }
    axes_ = classes(*widest);
    const size_t outer = axes_.size() - reduced.size();
    for (size_t i = 0; i < axes_.size(); ++i) {
      if ((reduced.count(axes_[i]) != 0) != (i >= outer))
        throw Refusal{Why::REDUCTION_NOT_LAST, "a reduction that is not over the last axes"};
    }
    row_axes_ = reduced.size();
    for (const Place& place : places_) {
      for (int c : classes(place)) {
        if (std::count(axes_.begin(), axes_.end(), c) == 0)
          throw Refusal{Why::NO_COMMON_BOX, "values that share no common box: " + shape(widest->value).to_string() +
                                                " and " + shape(place.value).to_string()};
      }
    }
    for (int value : region_.outputs) {
      const std::vector<int> own = classes(places_[static_cast<size_t>(made_[static_cast<size_t>(value)])]);
      for (size_t i = 0; i < outer; ++i) {
        if (std::count(own.begin(), own.end(), axes_[i]) == 0)
          throw Refusal{Why::SMALLER_OUTPUT, "an output smaller than the other values: " + shape(value).to_string() +
                                                 " and " + shape(widest->value).to_string()};
      }
    }
    name_axes();
  }

  // A dim of an operand for each axis.
  void name_axes() {
    auto note = [&](int operand, const Place& place) {
      for (size_t d = 0; d < place.dims.size(); ++d) {
        if (place.dims[d] < 0) continue;
        names_.emplace(find(place.dims[d]), Quantity::Factor{static_cast<int16_t>(operand), static_cast<int16_t>(d)});
      }
    };
    for (const Place& place : places_) {
      const auto input = std::find(region_.inputs.begin(), region_.inputs.end(), place.value);
      if (input != region_.inputs.end()) note(static_cast<int>(input - region_.inputs.begin()), place);
    }
    for (size_t i = 0; i < region_.outputs.size(); ++i) {
      note(static_cast<int>(region_.inputs.size() + i),
           places_[static_cast<size_t>(made_[static_cast<size_t>(region_.outputs[i])])]);
    }
  }

  Quantity extent(int root) const {
    const Dim& d = extents_[static_cast<size_t>(root)];
    if (d.is_const()) return {d.value(), {}};
    const auto name = names_.find(root);
    if (name == names_.end()) throw Refusal{Why::SIZE_UNTOLD, "no operand tells the size " + d.to_string(), "", {d}};
    return {1, {name->second}};
  }

  // ---- instructions ---------------------------------------------------------------------------------

  Access access(const Place& place, int operand) const {
    Access out;
    out.operand = operand;
    out.dtype = region_.values[static_cast<size_t>(place.value)].dtype;
    out.strides.assign(std::max<size_t>(axes_.size(), 1), Quantity{0, {}});
    Quantity stride;
    for (size_t d = place.dims.size(); d-- > 0;) {
      if (place.dims[d] < 0) continue;
      const int root = find(place.dims[d]);
      out.strides[static_cast<size_t>(std::find(axes_.begin(), axes_.end(), root) - axes_.begin())] = stride;
      stride = stride * extent(root);
    }
    return out;
  }

  IrBuilder::Ref read(int place_index) {
    const Place& place = places_[static_cast<size_t>(place_index)];
    const int made = made_[static_cast<size_t>(place.value)];
    if (made >= 0) return refs_.at(place.value);
    const Tensor* data = region_.data[static_cast<size_t>(place.value)];
    if (data != nullptr && data->count() == 1 && data->dtype() != DType::INT64) {
      return builder_.constant(data->to_f64()[0], compute_type(data->dtype()));
    }
    const auto input = std::find(region_.inputs.begin(), region_.inputs.end(), place.value);
    check_internal(input != region_.inputs.end(), "codegen: a region reads a value that is no operand");
    return builder_.load(access(place, static_cast<int>(input - region_.inputs.begin())));
  }

  void expand(size_t index) {
    const RegionOp& op = region_.ops[index];
    Expansion e{builder_, op.view, {}};
    for (int place : uses_[index]) e.inputs.push_back(place < 0 ? -1 : read(place));
    refs_[op.output] = is_view_op(op.view.op) ? e.in() : find_rule(op.view.op)->expand(e);
  }

  void store(int value) {
    const auto at = std::find(region_.outputs.begin(), region_.outputs.end(), value) - region_.outputs.begin();
    const Place& place = places_[static_cast<size_t>(made_[static_cast<size_t>(value)])];
    builder_.store(refs_.at(value), access(place, static_cast<int>(region_.inputs.size()) + static_cast<int>(at)));
  }

  // Merges neighbouring axes that all operands walk as one. The row must become one axis, and every operand must
  // walk it densely or not at all.
  void collapse() {
    KernelIr& kernel = builder_.kernel;
    std::vector<Quantity>& extents = kernel.extents;
    for (int root : axes_) extents.push_back(extent(root));
    size_t outer = axes_.size() - row_axes_;
    if (kernel.reduces && row_axes_ == 0) {  // a reduction over dims of size 1
      extents.push_back({1, {}});
      if (!axes_.empty()) {
        for (Access& a : kernel.accesses) a.strides.push_back({0, {}});
      }
    } else if (extents.empty()) {
      extents.push_back({1, {}});
    }
    for (size_t i = extents.size() - 1; i > 0; --i) {
      if (kernel.reduces && i == outer) continue;  // parallel and reduced axes stay apart
      const bool together = std::all_of(kernel.accesses.begin(), kernel.accesses.end(),
                                        [&](const Access& a) { return a.strides[i - 1] == a.strides[i] * extents[i]; });
      if (!together) continue;
      const auto at = static_cast<std::ptrdiff_t>(i) - 1;
      extents[i] = extents[i - 1] * extents[i];
      extents.erase(extents.begin() + at);
      for (Access& a : kernel.accesses) a.strides.erase(a.strides.begin() + at);
      if (i <= outer) --outer;
    }
    if (kernel.reduces && extents.size() > outer + 1)
      throw Refusal{Why::ROW_NOT_DENSE, "reduced axes that do not lie together in memory"};
    for (const Access& a : kernel.accesses) {
      if (a.moves_along_row() && !(a.strides.back() == Quantity{1, {}})) {
        throw Refusal{Why::ACROSS_MEMORY, "an operand that is walked across its memory order"};
      }
    }
  }

  const Region& region_;
  bool shared_;
  IrBuilder builder_;
  std::vector<Place> places_;
  std::vector<int> made_;               // value -> its place, -1 for values from outside
  std::vector<int> outside_;            // value from outside -> its latest place
  std::vector<std::vector<int>> uses_;  // per op: the places of its operands
  std::vector<int> parents_;            // union-find over dim variables
  std::vector<Dim> extents_;            // per variable
  std::vector<std::vector<int>> reductions_;
  std::vector<int> axes_;  // roots, in the order of the box
  size_t row_axes_ = 0;    // the last ones, which reductions go over
  std::map<int, Quantity::Factor> names_;
  std::map<int, IrBuilder::Ref> refs_;
};

}  // namespace

bool is_view_op(const std::string& op) {
  return op == "Transpose" || op == "Squeeze" || op == "Unsqueeze" || op == "Reshape" || op == "Flatten" ||
         op == "Expand";
}

Refusal why_not_fusable(const OpView& op) {
  if (!is_view_op(op.op)) return why_not_expand(op);
  if (compute_type(op.inputs[0].dtype) == DType::UNDEFINED) {
    return refuse_type(op, " of ", op.inputs[0].dtype);
  }
  if (!op.inputs[0].shape.ranked() || !op.outputs[0].shape.ranked()) {
    return {Why::UNKNOWN_RANK, "the rank of an operand of " + op.op + " is not known"};
  }
  return {};
}

RegionKernel build_kernel(const Region& region) {
  RegionKernel out;
  for (bool shared : {true, false}) {
    try {
      return {RegionBuilder(region, shared).run(), {}};
    } catch (const Refusal& refusal) {
      if (out.refusal.empty()) out.refusal = refusal;
    }
  }
  return out;
}

}  // namespace deepjit
