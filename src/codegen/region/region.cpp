#include "codegen/region/region.h"

#include <algorithm>

#include "base/broadcast.h"
#include "codegen/region/region_builder.h"

namespace deepjit {

namespace {

constexpr size_t kMostInsts = 1500;  // of one kernel
constexpr int kMostCuts = 12;        // of axes
constexpr int kMostAgain = 40;       // rough instructions that may be computed a second time instead of stored

}  // namespace

RegionBuilder::RegionBuilder(const Region& region, const Cuts& cuts) : region_(region), cuts_(cuts) {
  for (size_t i = 0; i < region.ops.size(); ++i) producer_[region.ops[i].output] = static_cast<int>(i);
  builder_.kernel.inputs = static_cast<int32_t>(region.inputs.size());
  for (size_t i = 0; i < region.inputs.size(); ++i) operand_.emplace(region.inputs[i], static_cast<int>(i));
  name_sizes();
}

KernelIr RegionBuilder::run() {
  const int main = main_output();
  main_coords_ = new_box(shape(main));
  const auto ref = eval(main, main_coords_, -1);
  add_store(main, ref, main_coords_);
  for (int value : region_.outputs) {
    if (value != main) store_beside(value, main);
  }
  merge_apart();
  finish();
  return std::move(builder_.kernel);
}

std::pair<int, size_t> RegionBuilder::root_of(int axis) const {
  for (size_t r = 0; r < roots_.size(); ++r) {
    const auto at = std::find(roots_[r].axes.begin(), roots_[r].axes.end(), axis);
    if (at != roots_[r].axes.end()) return {static_cast<int>(r), static_cast<size_t>(at - roots_[r].axes.begin())};
  }
  throw Error(Code::INTERNAL, "codegen: an axis without a dim");
}

int RegionBuilder::main_output() const {
  auto dims = [&](int value) {
    return std::count_if(shape(value).dims().begin(), shape(value).dims().end(),
                         [](const Dim& d) { return !(d == 1); });
  };
  return *std::max_element(region_.outputs.begin(), region_.outputs.end(),
                           [&](int a, int b) { return dims(a) < dims(b); });
}

Coord RegionBuilder::new_root(const Dim& extent) {
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

Coords RegionBuilder::new_box(const Shape& of) {
  Coords coords;
  for (const Dim& d : of.dims()) coords.push_back(new_root(d));
  return coords;
}

RegionBuilder::Ref RegionBuilder::eval(int value, const Coords& coords, Ref guard) {
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
  const bool first = known_[value].empty();
  if (!is_apart(value, guard, ref) && !first) count_again(before);
  known_[value].push_back({coords, guard, ref});
  return ref;
}

void RegionBuilder::count_again(size_t before) {
  for (size_t i = before; i < builder_.kernel.insts.size(); ++i) {
    const Opcode op = builder_.kernel.insts[i].op;
    again_ += is_transcendental(op) ? 20 : is_reduction(op) ? 2 * kMostAgain : 1;
  }
  if (again_ > kMostAgain)
    throw Refusal{Why::RECOMPUTED, "computing a value again at several places costs more than storing it"};
}

Coords RegionBuilder::operand_coords(const RegionOp& op, const ExpandRule& rule, size_t i, const Coords& result) const {
  const Shape& in = shape(op.inputs[i]);
  const Shape& out = shape(op.output);
  const int first = rule.first_dim != nullptr ? rule.first_dim(op.view, i) : out.rank() - in.rank();
  if (first < 0) throw Refusal{Why::RANK_ABOVE_RESULT, op.view.op + ": an operand has more dims than the result"};
  Coords coords(static_cast<size_t>(in.rank()));
  for (int d = 0; d < in.rank(); ++d) {
    if (in[d] == 1) continue;
    if (!agrees_where_valid(in[d], out[first + d])) {
      throw Refusal{Why::DIMS_NOT_EQUAL,
                    op.view.op + ": cannot tell that " + in[d].to_string() + " equals " + out[first + d].to_string(),
                    "",
                    {in[d], out[first + d]}};
    }
    coords[static_cast<size_t>(d)] = result[static_cast<size_t>(first) + static_cast<size_t>(d)];
  }
  return coords;
}

void RegionBuilder::check_stored_before(const RegionOp& op, int value) const {
  const auto made = producer_.find(value);
  if (made == producer_.end()) return;
  const RegionOp& producer = region_.ops[static_cast<size_t>(made->second)];
  if (producer.view.op == "QuantizeLinear") {
    throw Refusal{Why::OP_NOT_GENERATED,
                  op.view.op + " of a quantized value is not generated in the kernel that makes it",
                  "nothing needs doing: the value is small in memory"};
  }
  if (!is_view_op(producer.view.op)) return;
  for (int input : producer.inputs) check_stored_before(op, input);
}

RegionBuilder::Ref RegionBuilder::eval_op(const RegionOp& op, const Coords& coords, Ref guard) {
  const ExpandRule& rule = *find_rule(op.view.op);
  if (rule.reduced != nullptr && guard >= 0) throw Refusal{Why::ROW_CUT, op.view.op + " of a part of its rows"};
  for (int input : op.inputs) check_stored_before(op, input);
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
