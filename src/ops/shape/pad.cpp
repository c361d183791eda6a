// Pad and CenterCropPad. A negative pad crops; cropping comes first, then padding.
#include <algorithm>

#include "ops/common.h"
#include "ops/shape/movement.h"
#include "ops/shape/strided_copy.h"

namespace deepjit {

namespace {

// One axis: `skip` elements dropped at the start, `keep` kept, `before` and `after` added.
struct AxisPad {
  int64_t skip = 0;
  int64_t keep = 0;
  int64_t before = 0;
  int64_t after = 0;
  int64_t size() const { return checked_add(checked_add(before, keep), after); }
};

AxisPad axis_pad(int64_t dim, int64_t begin, int64_t end) {
  const int64_t skip = begin < -dim ? dim + 1 : std::max<int64_t>(-begin, 0);
  const int64_t keep = end < -dim ? -1 : dim - skip - std::max<int64_t>(-end, 0);
  if (keep < 0) {
    throw Error(Code::SHAPE_MISMATCH, "Pad: pads " + std::to_string(begin) + " and " + std::to_string(end) +
                                          " take more than the dimension of " + std::to_string(dim));
  }
  return {skip, keep, std::max<int64_t>(begin, 0), std::max<int64_t>(end, 0)};
}

Dims padded_dims(const std::vector<AxisPad>& pads) {
  Dims out;
  for (const AxisPad& pad : pads) out.push_back(pad.size());
  return out;
}

enum class PadMode { CONSTANT, REFLECT, EDGE, WRAP };

PadMode pad_mode(const Attributes& attrs) {
  const std::string mode = attrs.get_string("mode", "constant");
  if (mode == "constant") return PadMode::CONSTANT;
  if (mode == "reflect") return PadMode::REFLECT;
  if (mode == "edge") return PadMode::EDGE;
  if (mode == "wrap") return PadMode::WRAP;
  throw Error(Code::ATTRIBUTE, "Pad: mode \"" + mode + "\" is unknown");
}

// The kept element that position i (counted from the first kept one) shows.
int64_t mirrored(int64_t i, int64_t keep, PadMode mode) {
  if (mode == PadMode::EDGE || keep == 1) return std::clamp<int64_t>(i, 0, keep - 1);
  const int64_t period = mode == PadMode::WRAP ? keep : 2 * (keep - 1);
  const int64_t m = ((i % period) + period) % period;
  return m < keep ? m : period - m;
}

constexpr int64_t kValue = -1;  // no input position: the pad value

// For each position of an output axis, the input position it shows.
std::vector<int64_t> source_map(const AxisPad& pad, PadMode mode) {
  const int64_t size = pad.size();
  if (pad.keep == 0 && size > 0 && mode != PadMode::CONSTANT) {
    throw Error(Code::SHAPE_MISMATCH, "Pad: an empty dimension can only be padded in constant mode");
  }
  std::vector<int64_t> map(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const int64_t at = i - pad.before;
    int64_t& source = map[static_cast<size_t>(i)];
    if (at >= 0 && at < pad.keep) {
      source = pad.skip + at;
    } else {
      source = mode == PadMode::CONSTANT ? kValue : pad.skip + mirrored(at, pad.keep, mode);
    }
  }
  return map;
}

// The first element of the input row at these positions, or nullptr for a row of pad values.
template <typename T>
const T* source_row(const T* in, const Dims& strides, const std::vector<std::vector<int64_t>>& maps,
                    const std::vector<size_t>& index) {
  for (size_t d = 0; d < index.size(); ++d) {
    const int64_t at = maps[d][index[d]];
    if (at == kValue) return nullptr;
    in += at * strides[static_cast<int>(d)];
  }
  return in;
}

// `value` is for the constant mode; null means zero.
template <typename T>
void pad_rows(const TensorView& in, const std::vector<AxisPad>& pads, PadMode mode, const void* value,
              const TensorView& out) {
  // Trailing axes without pads form one run; `last` is the innermost padded axis.
  int last = in.dims.rank() - 1;
  while (last > 0 && pads[static_cast<size_t>(last)].keep == out.dims[last] &&
         pads[static_cast<size_t>(last)].keep == in.dims[last]) {
    --last;
  }
  const int64_t run = count_range(in.dims, last + 1, in.dims.rank());
  const Dims strides = in.dims.strides();
  std::vector<std::vector<int64_t>> maps;
  for (const AxisPad& pad : pads) maps.push_back(source_map(pad, mode));
  const AxisPad& inner = pads[static_cast<size_t>(last)];
  const std::vector<int64_t>& inner_map = maps[static_cast<size_t>(last)];
  std::vector<size_t> index(static_cast<size_t>(last), 0);
  const int64_t rows = count_range(out.dims, 0, last);
  const T fill = value == nullptr ? T() : *static_cast<const T*>(value);
  T* to = out.as<T>();
  for (int64_t row = 0; row < rows; ++row) {
    const T* from = source_row(in.as<T>(), strides, maps, index);
    const auto pad_range = [&](int64_t first, int64_t end) {
      if (from == nullptr || mode == PadMode::CONSTANT) {
        std::fill(to + first * run, to + end * run, fill);
        return;
      }
      for (int64_t i = first; i < end; ++i) copy_run(from + inner_map[static_cast<size_t>(i)] * run, to + i * run, run);
    };
    if (from == nullptr) {
      pad_range(0, inner.size());
    } else {
      pad_range(0, inner.before);
      copy_run(from + inner.skip * run, to + inner.before * run, inner.keep * run);
      pad_range(inner.before + inner.keep, inner.size());
    }
    to += inner.size() * run;
    for (int d = last - 1; d >= 0; --d) {
      if (++index[static_cast<size_t>(d)] < maps[static_cast<size_t>(d)].size()) break;
      index[static_cast<size_t>(d)] = 0;
    }
  }
}

void pad_tensor(const TensorView& in, const std::vector<AxisPad>& pads, PadMode mode, const void* value,
                const TensorView& out) {
  visit_movable(in.dtype, [&]<typename T>() {
    if (in.dims.empty()) return copy_run(in.as<T>(), out.as<T>(), 1);
    pad_rows<T>(in, pads, mode, value, out);
  });
}

std::vector<int64_t> pad_axes(const std::optional<std::vector<int64_t>>& given, int rank) {
  std::vector<int64_t> axes;
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  if (!given) {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  for (int64_t a : *given) {
    axes.push_back(normalize_axis(a, rank, "axis"));
    if (seen[static_cast<size_t>(axes.back())]) throw Error(Code::ATTRIBUTE, "an axis is given twice");
    seen[static_cast<size_t>(axes.back())] = true;
  }
  return axes;
}

void check_pads(size_t pads, size_t axes) {
  if (pads == 2 * axes) return;
  throw Error(Code::SHAPE_MISMATCH, "Pad: pads has " + std::to_string(pads) + " elements for " + std::to_string(axes) +
                                        " axes, expected " + std::to_string(2 * axes));
}

void infer_pad(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  pad_mode(ctx.attrs());
  if (!in.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  const auto given = ctx.has_input(3) ? ctx.constant_ints(3) : std::nullopt;
  if (ctx.has_input(3) && !given) return ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(in.rank()));
  const std::vector<int64_t> axes = pad_axes(given, in.rank());
  const std::vector<Dim>* pads = known_values(ctx, 1);
  if (pads != nullptr) check_pads(pads->size(), axes.size());
  Shape out = in;
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& dim = out[static_cast<int>(axes[i])];
    if (pads == nullptr) {
      dim = ctx.fresh_dim();
      continue;
    }
    dim = dim + (*pads)[i] + (*pads)[i + axes.size()];
    if (dim.is_const() && dim.value() < 0) {
      throw Error(Code::SHAPE_MISMATCH,
                  "Pad: axis " + std::to_string(axes[i]) + " would have " + dim.to_string() + " elements");
    }
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
}

void evaluate_pad(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const PadMode mode = pad_mode(ctx.attrs());
  const std::vector<int64_t> values = ctx.ints(1);
  const auto given = ctx.has_input(3) ? std::optional<std::vector<int64_t>>(ctx.ints(3)) : std::nullopt;
  const std::vector<int64_t> axes = pad_axes(given, in.dims.rank());
  check_pads(values.size(), axes.size());
  std::vector<AxisPad> pads;
  for (int64_t dim : in.dims) pads.push_back(axis_pad(dim, 0, 0));
  for (size_t i = 0; i < axes.size(); ++i) {
    pads[static_cast<size_t>(axes[i])] =
        axis_pad(in.dims[static_cast<int>(axes[i])], values[i], values[i + axes.size()]);
  }
  const TensorView out = ctx.output(0, in.dtype, padded_dims(pads));
  if (out.count() == 0) return;
  const bool has_value = ctx.has_input(2) && ctx.input(2).count() > 0;
  pad_tensor(in, pads, mode, has_value ? ctx.input(2).data : nullptr, out);
}

std::vector<int64_t> crop_axes(const Attributes& attrs, int rank) {
  if (!attrs.has("axes")) return pad_axes(std::nullopt, rank);
  return pad_axes(attrs.get_ints("axes"), rank);
}

void check_crop_shape(size_t count, size_t axes) {
  if (count == axes) return;
  throw Error(Code::SHAPE_MISMATCH,
              "CenterCropPad: shape has " + std::to_string(count) + " elements for " + std::to_string(axes) + " axes");
}

void infer_center_crop_pad(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  if (!in.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  const std::vector<int64_t> axes = crop_axes(ctx.attrs(), in.rank());
  const std::vector<Dim>* sizes = known_values(ctx, 1);
  if (sizes != nullptr) check_crop_shape(sizes->size(), axes.size());
  Shape out = in;
  for (size_t i = 0; i < axes.size(); ++i) {
    out[static_cast<int>(axes[i])] = sizes != nullptr ? (*sizes)[i] : ctx.fresh_dim();
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
}

void evaluate_center_crop_pad(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const std::vector<int64_t> axes = crop_axes(ctx.attrs(), in.dims.rank());
  const std::vector<int64_t> sizes = ctx.ints(1);
  check_crop_shape(sizes.size(), axes.size());
  std::vector<AxisPad> pads;
  for (int64_t dim : in.dims) pads.push_back(axis_pad(dim, 0, 0));
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t dim = in.dims[static_cast<int>(axes[i])];
    if (sizes[i] < 0) throw Error(Code::SHAPE_MISMATCH, "CenterCropPad: a size is negative");
    const int64_t more = sizes[i] - dim;
    // An odd difference goes to the end, in both directions.
    pads[static_cast<size_t>(axes[i])] = axis_pad(dim, more / 2, more - more / 2);
  }
  const TensorView out = ctx.output(0, in.dtype, padded_dims(pads));
  if (out.count() > 0) pad_tensor(in, pads, PadMode::CONSTANT, nullptr, out);
}

}  // namespace

void add_pad_ops(OpRegistry& registry) {
  registry.add({.name = "Pad",
                .min_inputs = 2,
                .max_inputs = 4,
                .infer = infer_pad,
                .evaluate = evaluate_pad,
                .shape_inputs = {1, 3}});
  registry.add({.name = "CenterCropPad",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_center_crop_pad,
                .evaluate = evaluate_center_crop_pad,
                .shape_inputs = {1}});
}

}  // namespace deepjit
