#include "codegen/region/index_range.h"

#include <algorithm>
#include <array>

namespace deepjit {

namespace {

constexpr int64_t kMostLookedAt = 1 << 16;      // elements of a constant
constexpr int64_t kLargest = int64_t{1} << 40;  // bounds beyond are of no use, and sums of others stay exact
constexpr std::array kMoves = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity"};
constexpr std::array kPicks = {"Slice", "Gather", "GatherElements", "Expand", "Tile"};

const RegionOp* producer_of(const Region& region, int value) {
  const auto found =
      std::find_if(region.ops.begin(), region.ops.end(), [value](const RegionOp& op) { return op.output == value; });
  return found == region.ops.end() ? nullptr : &*found;
}

template <typename List>
bool is_one_of(const List& list, const std::string& op) {
  return std::find(list.begin(), list.end(), op) != list.end();
}

std::optional<IndexRange> of_constant(const Tensor& data) {
  if (data.count() == 0 || data.count() > kMostLookedAt) return std::nullopt;
  const std::vector<int64_t> values = data.to_i64();
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (*least < -kLargest || *most > kLargest) return std::nullopt;
  return IndexRange{*least, *most};
}

std::optional<IndexRange> of_type(DType type) {
  switch (type) {
    case DType::BOOL:
      return IndexRange{0, 1};
    case DType::UINT8:
      return IndexRange{0, 255};
    case DType::INT8:
      return IndexRange{-128, 127};
    case DType::UINT16:
      return IndexRange{0, 65535};
    case DType::INT16:
      return IndexRange{-32768, 32767};
    default:
      return std::nullopt;
  }
}

std::optional<IndexRange> either(const std::optional<IndexRange>& a, const std::optional<IndexRange>& b) {
  if (!a || !b) return std::nullopt;
  return IndexRange{min(a->least, b->least), max(a->most, b->most)};
}

std::optional<int64_t> number(const RegionOp& op, size_t input) {
  const Tensor* data = op.view.has(input) ? op.view.constants[input] : nullptr;
  if (data == nullptr || data->count() != 1 || !is_integer(data->dtype())) return std::nullopt;
  const int64_t value = data->to_i64()[0];
  return std::abs(value) <= kLargest ? std::optional<int64_t>(value) : std::nullopt;
}

std::optional<IndexRange> of_clip(const Region& region, const RegionOp& op) {
  const auto in = range_of(region, op.inputs[0]);
  const auto low = number(op, 1);
  const auto high = number(op, 2);
  if ((!in && (!low || !high)) || (op.view.has(1) && !low) || (op.view.has(2) && !high)) return std::nullopt;
  IndexRange out;
  out.least = in && low ? max(in->least, *low) : low ? Dim(*low) : in->least;
  out.most = in && high ? min(in->most, *high) : high ? Dim(*high) : in->most;
  // The upper limit wins where both do not agree.
  if (high) out.least = min(out.least, *high);
  if (low && high) out.most = min(max(out.most, *low), *high);
  if (low && !high) out.most = max(out.most, *low);
  return out;
}

std::optional<IndexRange> of_cast(const Region& region, const RegionOp& op) {
  if (is_float(op.view.inputs[0].dtype)) return std::nullopt;
  const auto in = range_of(region, op.inputs[0]);
  const DType to = op.view.outputs[0].dtype;
  if (to == DType::INT64 || to == op.view.inputs[0].dtype) return in;
  // A narrower type may wrap.
  if (to != DType::INT32 || !in || !in->least.is_const() || !in->most.is_const()) return std::nullopt;
  if (in->least.value() < INT32_MIN || in->most.value() > INT32_MAX) return std::nullopt;
  return in;
}

std::optional<IndexRange> of_sum(const Region& region, const RegionOp& op) {
  if (op.view.outputs[0].dtype != DType::INT64) return std::nullopt;
  const auto a = range_of(region, op.inputs[0]);
  const auto b = range_of(region, op.inputs[1]);
  if (!a || !b) return std::nullopt;
  if (op.view.op == "Add") return IndexRange{a->least + b->least, a->most + b->most};
  return IndexRange{a->least - b->most, a->most - b->least};
}

std::optional<IndexRange> of_op(const Region& region, const RegionOp& op) {
  const std::string& name = op.view.op;
  if (is_one_of(kMoves, name) || is_one_of(kPicks, name)) return range_of(region, op.inputs[0]);
  if (name == "Cast") return of_cast(region, op);
  if (name == "Clip") return of_clip(region, op);
  if (name == "Add" || name == "Sub") return of_sum(region, op);
  if (name == "Where") return either(range_of(region, op.inputs[1]), range_of(region, op.inputs[2]));
  if (name == "ArgMax" || name == "ArgMin") {
    const Shape& in = op.view.inputs[0].shape;
    return IndexRange{0, in[normalize_axis(op.view.attrs->get_int("axis", 0), in.rank())] - 1};
  }
  if (name == "Concat") {
    std::optional<IndexRange> all = range_of(region, op.inputs[0]);
    for (int part : op.inputs) all = either(all, range_of(region, part));
    return all;
  }
  return std::nullopt;
}

// A Cast that keeps every integer.
bool keeps_integers(const OpView& op) {
  const DType from = op.inputs[0].dtype;
  const DType to = op.outputs[0].dtype;
  return op.op == "Cast" && from != DType::BOOL && is_integer(from) && (to == DType::INT64 || to == from);
}

}  // namespace

std::optional<IndexRange> range_of(const Region& region, int value) {
  const auto at = static_cast<size_t>(value);
  if (!is_integer(region.values[at].dtype) && region.values[at].dtype != DType::BOOL) return std::nullopt;
  if (region.data[at] != nullptr && is_integer(region.data[at]->dtype())) {
    if (auto known = of_constant(*region.data[at])) return known;
  }
  const RegionOp* op = producer_of(region, value);
  if (op != nullptr) {
    if (auto known = of_op(region, *op)) return known;
  }
  return of_type(region.values[at].dtype);
}

int whole_source(const Region& region, int value) {
  const RegionOp* op = producer_of(region, value);
  if (op == nullptr) return value;
  const bool keeps = is_one_of(kMoves, op->view.op) || keeps_integers(op->view);
  return keeps ? whole_source(region, op->inputs[0]) : -1;
}

bool never_above(const Dim& a, const Dim& b) {
  const auto least = (b - a).lower_bound();
  return least && *least >= 0;
}

}  // namespace deepjit
