#include "codegen/region/region_views.h"

#include <algorithm>
#include <array>
#include <limits>

namespace deepjit {

namespace {

constexpr std::array kReshapes = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};

bool is_reshape(const std::string& op) { return std::count(kReshapes.begin(), kReshapes.end(), op) != 0; }

// One range of dims of the input that holds the same elements as one range of the result's.
Coords regroup(const OpView& op, const std::vector<Dim>& in, const std::vector<Dim>& out, const Coords& coords,
               const std::vector<Dim>& extents) {
  if (in.size() == 1 && out.size() == 1) return coords;
  Coord flat;
  Dim step = 1;
  for (size_t d = out.size(); d-- > 0;) {
    if (!coords[d].is_affine()) throw Refusal{Why::DIMS_REGROUPED, op.op + " of a value whose place is computed"};
    flat = flat + scaled(coords[d], step);
    step = step * out[d];
  }
  Coords result(in.size());
  for (size_t d = in.size(); d-- > 0;) {
    if (d == 0) {
      result[0] = flat;
      break;
    }
    const auto parts = divide(flat, in[d], extents);
    if (!parts)
      throw Refusal{Why::DIMS_REGROUPED, op.op + " merges or splits dims in a way that is no walk along them: " +
                                             op.inputs[0].shape.to_string() + " to " + op.outputs[0].shape.to_string()};
    if (parts->cut) throw *parts->cut;
    result[d] = parts->rest;
    flat = parts->quotient;
  }
  return result;
}

Coords reshape_input(const OpView& op, const Coords& result, const std::vector<Dim>& extents) {
  const std::vector<Dim>& in = op.inputs[0].shape.dims();
  const std::vector<Dim>& out = op.outputs[0].shape.dims();
  Coords coords(in.size());
  size_t i = 0;
  size_t o = 0;
  auto skip_ones = [](const std::vector<Dim>& dims, size_t& at) {
    while (at < dims.size() && dims[at] == 1) ++at;
  };
  while (true) {
    skip_ones(in, i);
    skip_ones(out, o);
    if (i == in.size() && o == out.size()) return coords;
    if (i == in.size() || o == out.size()) break;
    // The shortest ranges from here with equal products.
    size_t i_end = i + 1;
    size_t o_end = o + 1;
    Dim of_in = in[i];
    Dim of_out = out[o];
    while (!(of_in == of_out)) {
      const bool take_in = Dim::exact_div(of_out, of_in).has_value() || o_end == out.size();
      if (take_in && i_end < in.size()) {
        of_in = of_in * in[i_end++];
      } else if (o_end < out.size()) {
        of_out = of_out * out[o_end++];
      } else {
        throw Refusal{Why::DIMS_REGROUPED, op.op + ": cannot tell how " + op.inputs[0].shape.to_string() + " becomes " +
                                               op.outputs[0].shape.to_string()};
      }
    }
    const auto at = [](size_t k) { return static_cast<std::ptrdiff_t>(k); };
    const Coords part =
        regroup(op, {in.begin() + at(i), in.begin() + at(i_end)}, {out.begin() + at(o), out.begin() + at(o_end)},
                {result.begin() + at(o), result.begin() + at(o_end)}, extents);
    std::copy(part.begin(), part.end(), coords.begin() + at(i));
    i = i_end;
    o = o_end;
  }
  throw Refusal{Why::DIMS_REGROUPED, op.op + ": cannot tell how " + op.inputs[0].shape.to_string() + " becomes " +
                                         op.outputs[0].shape.to_string()};
}

Coords transpose_input(const OpView& op, const Coords& result) {
  const std::vector<int64_t> perm = op.attrs->get_ints("perm");
  Coords coords(result.size());
  for (size_t d = 0; d < result.size(); ++d) {
    coords[perm.empty() ? result.size() - 1 - d : static_cast<size_t>(perm[d])] = result[d];
  }
  return coords;
}

Coords expand_input(const OpView& op, const Coords& result) {
  const Shape& in = op.inputs[0].shape;
  const Shape& out = op.outputs[0].shape;
  const int first = out.rank() - in.rank();
  Coords coords(static_cast<size_t>(in.rank()));
  for (int d = 0; d < in.rank(); ++d) {
    if (in[d] == 1) continue;
    if (!(in[d] == out[first + d])) {
      throw Refusal{Why::DIMS_NOT_EQUAL,
                    "Expand: cannot tell that " + in[d].to_string() + " equals " + out[first + d].to_string(),
                    "",
                    {in[d], out[first + d]}};
    }
    coords[static_cast<size_t>(d)] = result[static_cast<size_t>(first) + static_cast<size_t>(d)];
  }
  return coords;
}

// A begin or axis list of a Slice or Pad, by its place among the operands.
std::vector<int64_t> numbers(const OpView& op, size_t input) { return op.constants[input]->to_i64(); }

std::vector<int> axes_given(const OpView& op, size_t input, size_t count) {
  std::vector<int> axes;
  if (op.has(input)) {
    for (int64_t axis : numbers(op, input)) axes.push_back(normalize_axis(axis, op.inputs[0].shape.rank()));
  } else {
    for (size_t k = 0; k < count; ++k) axes.push_back(static_cast<int>(k));
  }
  return axes;
}

constexpr int64_t kFar = int64_t{1} << 31;  // begins beyond this stand for "from the very end"

// The first index that a Slice reads, when no clamping depends on the size.
Dim slice_start(const OpView& op, const Dim& size, int64_t start, int64_t step) {
  if (size.is_const()) {
    const int64_t n = size.value();
    if (start < 0) start = start < -n ? -1 : start + n;
    return step > 0 ? std::clamp<int64_t>(start, 0, n) : std::clamp<int64_t>(start, -1, n - 1);
  }
  if (step > 0 && start >= 0) return start;  // past the end there is nothing to read
  if (step > 0 && start <= -kFar) return 0;
  if (step < 0 && start >= kFar) return size - 1;
  const Dim first = size + start;
  const auto least = first.lower_bound();
  if (start < 0 && least && *least >= 0) return first;
  if (start == -1) return first;  // of an empty dim there is nothing to read
  throw Refusal{Why::VIEW_NOT_CONSTANT,
                op.op + ": where it begins depends on " + size.to_string(),
                "make the dim static, or count from the front",
                {size}};
}

// The offset of start + i * step as parts that are products.
Coord sliced(const Coord& c, const Dim& size, const Dim& start, int64_t step) {
  if (step != 1 && !c.is_affine())
    throw Refusal{Why::DIMS_REGROUPED, "Slice with steps of a value whose place is computed"};
  const Coord walk = step == 1 ? c : scaled(c, step);
  if (size.is_const() || start.is_const()) return shifted(walk, start);
  return shifted(shifted(walk, size), start - size);
}

Coords slice_input(const OpView& op, const Coords& result) {
  Coords coords = result;
  const std::vector<int64_t> starts = numbers(op, 1);
  const std::vector<int> axes = axes_given(op, 3, starts.size());
  for (size_t k = 0; k < axes.size(); ++k) {
    const Dim& size = op.inputs[0].shape[axes[k]];
    const int64_t step = op.has(4) ? numbers(op, 4)[k] : 1;
    Coord& c = coords[static_cast<size_t>(axes[k])];
    c = sliced(c, size, slice_start(op, size, starts[k], step), step);
  }
  return coords;
}

Refusal need_constants(const OpView& op, const std::vector<size_t>& inputs) {
  for (size_t i : inputs) {
    if (op.has(i) && op.constants[i] == nullptr) {
      return {Why::VIEW_NOT_CONSTANT, "an operand that says what " + op.op + " takes is not constant"};
    }
  }
  return {};
}

Refusal why_not_gather(const OpView& op) {
  if (!op.has(1)) return {Why::OP_NOT_GENERATED, op.op + " without indices is not generated"};
  if (!op.inputs[1].shape.ranked()) return {Why::UNKNOWN_RANK, "the rank of the indices of " + op.op + " is not known"};
  return {};
}

// The part of a coordinate within blocks of `size`, and their number.
Division split_at(const OpView& op, const Coord& c, const Dim& size, const std::vector<Dim>& extents) {
  const auto parts = divide(c, size, extents);
  if (!parts) {
    throw Refusal{Why::DIMS_REGROUPED, op.op + " in steps of " + size.to_string() + " is no walk along its dims"};
  }
  if (parts->cut) throw *parts->cut;
  return *parts;
}

Coord times(const OpView& op, const Coord& c, const Dim& factor) {
  if (!c.is_affine()) throw Refusal{Why::DIMS_REGROUPED, op.op + " of a value whose place is computed"};
  return scaled(c, factor);
}

Coords tile_input(const OpView& op, const Coords& result, const std::vector<Dim>& extents) {
  const Shape& in = op.inputs[0].shape;
  Coords coords(result.size());
  for (size_t d = 0; d < result.size(); ++d) {
    const Dim& size = in[static_cast<int>(d)];
    if (size == 1) continue;
    const bool same = size == op.outputs[0].shape[static_cast<int>(d)];
    coords[d] = same ? result[d] : split_at(op, result[d], size, extents).rest;
  }
  return coords;
}

Refusal why_not_tile(const OpView& op) {
  const Shape& in = op.inputs[0].shape;
  for (int d = 0; d < in.rank(); ++d) {
    if (in[d] == 1 || Dim::exact_div(op.outputs[0].shape[d], in[d])) continue;
    return {Why::OP_NOT_GENERATED,
            "Tile: cannot tell how often " + in[d].to_string() + " comes in " + op.outputs[0].shape[d].to_string()};
  }
  return {};
}

Coords depth_to_space_input(const OpView& op, const Coords& result, const std::vector<Dim>& extents) {
  const int64_t block = op.attrs->get_int("blocksize", 1);
  const Division h = split_at(op, result[2], block, extents);
  const Division w = split_at(op, result[3], block, extents);
  const Coord part = scaled(h.rest, block) + w.rest;
  const bool outer = op.attrs->get_string("mode", "DCR") == "DCR";
  const Coord channel =
      outer ? scaled(part, op.outputs[0].shape[1]) + result[1] : times(op, result[1], block * block) + part;
  return {result[0], channel, h.quotient, w.quotient};
}

Coords space_to_depth_input(const OpView& op, const Coords& result, const std::vector<Dim>& extents) {
  const int64_t block = op.attrs->get_int("blocksize", 1);
  const Dim& channels = op.inputs[0].shape[1];
  const Division channel = channels == 1 ? Division{result[1], {}, {}} : split_at(op, result[1], channels, extents);
  const Division part = split_at(op, channel.quotient, block, extents);
  return {result[0], channel.rest, times(op, result[2], block) + part.quotient,
          times(op, result[3], block) + part.rest};
}

bool moves_depth(const std::string& op) { return op == "DepthToSpace" || op == "SpaceToDepth"; }

Refusal why_not_depth(const OpView& op) {
  if (op.inputs[0].shape.rank() != 4 || op.attrs->get_int("blocksize", 1) < 1) {
    return {Why::OP_NOT_GENERATED, op.op + " is generated for images of four dims"};
  }
  return {};
}

}  // namespace

bool is_view_op(const std::string& op) {
  return is_reshape(op) || op == "Transpose" || op == "Expand" || op == "Slice" || op == "Pad" || op == "Concat" ||
         op == "Gather" || op == "GatherElements" || op == "Tile" || op == "Trilu" || op == "Resize" || moves_depth(op);
}

bool is_computed_view(const std::string& op) { return op == "Resize"; }

Refusal why_not_view(const OpView& op) {
  const bool by_indices = op.op == "Gather" || op.op == "GatherElements";
  const size_t read = op.op == "Concat" ? op.inputs.size() : by_indices ? 2 : 1;  // by the kernel
  for (size_t i = 0; i < read; ++i) {
    if (!op.has(i)) return {Why::OP_NOT_GENERATED, op.op + " without an operand is not generated"};
    if (compute_type(op.inputs[i].dtype) == DType::UNDEFINED) return refuse_type(op, " of ", op.inputs[i].dtype);
    if (!op.inputs[i].shape.ranked() || !op.outputs[0].shape.ranked()) {
      return {Why::UNKNOWN_RANK, "the rank of an operand of " + op.op + " is not known"};
    }
  }
  if (op.op == "Slice") {
    // Where it ends is told by the size that is left.
    if (Refusal why = need_constants(op, {1, 3, 4}); !why.empty()) return why;
    const size_t count = op.has(1) ? numbers(op, 1).size() : 0;
    const bool fits = op.has(1) && (!op.has(3) || numbers(op, 3).size() == count) &&
                      (!op.has(4) || numbers(op, 4).size() == count) &&
                      count <= static_cast<size_t>(op.inputs[0].shape.rank());
    return fits ? Refusal{} : Refusal{Why::VIEW_NOT_CONSTANT, "the begins, axes and steps of Slice do not fit"};
  }
  if (op.op == "Pad") {
    const std::string mode = op.attrs->get_string("mode", "constant");
    if (mode != "constant") return {Why::OP_NOT_GENERATED, "Pad by " + mode + " is not generated"};
    if (!op.has(1)) return {Why::VIEW_NOT_CONSTANT, "Pad without widths"};
    if (Refusal why = need_constants(op, {1, 2, 3}); !why.empty()) return why;
    const size_t axes = op.has(3) ? numbers(op, 3).size() : static_cast<size_t>(op.inputs[0].shape.rank());
    if (numbers(op, 1).size() != 2 * axes) return {Why::VIEW_NOT_CONSTANT, "the widths of Pad do not fit its axes"};
    return {};
  }
  if (op.op == "Gather" || op.op == "GatherElements") return why_not_gather(op);
  if (op.op == "Tile") return why_not_tile(op);
  if (op.op == "Trilu") return need_constants(op, {1});
  if (op.op == "Resize") return why_not_resize(op);
  return moves_depth(op.op) ? why_not_depth(op) : Refusal{};
}

Coords view_input(const OpView& op, const Coords& result, const std::vector<Dim>& extents) {
  if (op.op == "Transpose") return transpose_input(op, result);
  if (op.op == "Expand") return expand_input(op, result);
  if (op.op == "Slice") return slice_input(op, result);
  if (op.op == "Tile") return tile_input(op, result, extents);
  if (op.op == "DepthToSpace") return depth_to_space_input(op, result, extents);
  if (op.op == "SpaceToDepth") return space_to_depth_input(op, result, extents);
  return reshape_input(op, result, extents);
}

int concat_axis(const OpView& op) { return normalize_axis(op.attrs->get_int("axis", 0), op.inputs[0].shape.rank()); }

std::vector<Dim> concat_starts(const OpView& op) {
  std::vector<Dim> starts;
  Dim at = 0;
  for (const TensorType& part : op.inputs) {
    starts.push_back(at);
    at = at + part.shape[concat_axis(op)];
  }
  return starts;
}

PadWidths pad_widths(const OpView& op) {
  const auto rank = static_cast<size_t>(op.inputs[0].shape.rank());
  const std::vector<int64_t> pads = numbers(op, 1);
  PadWidths widths{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  const std::vector<int> axes = axes_given(op, 3, pads.size() / 2);
  for (size_t k = 0; k < axes.size(); ++k) {
    widths.before[static_cast<size_t>(axes[k])] = pads[k];
    widths.after[static_cast<size_t>(axes[k])] = pads[axes.size() + k];
  }
  return widths;
}

}  // namespace deepjit
