// RegionBuilder's Resize: the place in the input, and the weights, as arithmetic on the coordinates.
//
// Formulas, their order and their double precision are those of the reference (ops/signal/resize_plan), so that a
// sample that lies between two pixels falls on the same side.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codegen/region/region_builder.h"

namespace deepjit {

namespace {

using Ref = IrBuilder::Ref;

constexpr std::array kTransforms = {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric",
                                    "align_corners"};
constexpr size_t kMostAxes = 3;  // along which a linear Resize mixes: eight loads an element

std::vector<int> resized_axes(const OpView& op) {
  const int rank = op.inputs[0].shape.rank();
  std::vector<int> axes;
  const std::vector<int64_t> given = op.attrs->get_ints("axes");
  for (int64_t axis : given) axes.push_back(normalize_axis(axis, rank));
  for (int d = 0; given.empty() && d < rank; ++d) axes.push_back(d);
  return axes;
}

bool has_elements(const OpView& op, size_t input) { return op.has(input) && !(op.inputs[input].shape.count() == 0); }

// Arithmetic in double; what is constant is computed now.
class Doubles {
 public:
  explicit Doubles(IrBuilder& b) : b_(b) {}

  Ref number(double x) { return b_.constant(x, DType::FLOAT64); }
  std::optional<double> known(Ref x) const {
    const Inst& inst = b_.kernel.insts[static_cast<size_t>(x)];
    return inst.op == Opcode::CONST ? std::optional<double>(inst.number) : std::nullopt;
  }
  Ref of(Ref x) {
    if (const auto number_ = known(x)) return number(*number_);
    return b_.cast(x, DType::FLOAT64);
  }
  Ref add(Ref a, Ref b) { return op(Opcode::ADD, a, b); }
  Ref sub(Ref a, Ref b) { return op(Opcode::SUB, a, b); }
  Ref mul(Ref a, Ref b) { return op(Opcode::MUL, a, b); }
  Ref div(Ref a, Ref b) {
    int exponent = 0;
    const auto by = known(b);
    // By a power of two a product gives the same bits.
    if (by && std::frexp(*by, &exponent) == 0.5 && !known(a)) return op(Opcode::MUL, a, number(1 / *by));
    return op(Opcode::DIV, a, b);
  }
  Ref equal(Ref a, double b) { return b_.binary(Opcode::EQ, a, number(b)); }
  Ref round(Opcode how, Ref x) { return b_.unary(how, x); }
  // x limited to [0, high].
  Ref limit(Ref x, Ref high) { return b_.binary(Opcode::MIN, b_.binary(Opcode::MAX, x, number(0)), high); }
  // `x`, or `otherwise` where the condition holds.
  Ref unless(Ref condition, Ref x, double otherwise) { return b_.select(condition, number(otherwise), x); }

 private:
  Ref op(Opcode code, Ref a, Ref b) {
    const auto x = known(a);
    const auto y = known(b);
    if (!x || !y) return b_.binary(code, a, b);
    return number(code == Opcode::ADD   ? *x + *y
                  : code == Opcode::SUB ? *x - *y
                  : code == Opcode::MUL ? *x * *y
                                        : *x / *y);
  }

  IrBuilder& b_;
};

struct Source {
  std::string transform;
  Ref in, out, scale;
};

// The input coordinate that output position x comes from.
Ref source_coordinate(Doubles& d, IrBuilder& b, const Source& s, Ref x) {
  const Ref half = d.number(0.5);
  const auto centre = [&] { return d.sub(d.div(d.add(x, half), s.scale), half); };
  if (s.transform == "half_pixel") return centre();
  if (s.transform == "asymmetric") return d.div(x, s.scale);
  const auto out = d.known(s.out);
  if (s.transform == "pytorch_half_pixel") {
    if (out) return *out > 1 ? centre() : d.number(0);
    return d.unless(b.binary(Opcode::LE, s.out, d.number(1)), centre(), 0);
  }
  const Ref length = d.mul(s.scale, s.in);  // may be fractional where scales are given
  if (s.transform == "half_pixel_symmetric") {
    const Ref adjustment = d.div(s.out, length);
    const Ref first = d.mul(d.div(s.in, d.number(2)), d.sub(d.number(1), adjustment));
    return d.sub(d.add(first, d.div(d.add(x, half), s.scale)), half);
  }
  const Ref one = d.number(1);
  if (out && d.known(length)) {
    if (*out == 1 || *d.known(length) == 1) return d.number(0);
    return d.div(d.mul(x, d.sub(s.in, one)), d.sub(length, one));
  }
  const Ref at_start = b.binary(Opcode::OR, d.equal(s.out, 1), d.equal(length, 1));
  return d.unless(at_start, d.div(d.mul(x, d.sub(s.in, one)), d.sub(length, one)), 0);
}

Ref nearest(Doubles& d, const std::string& mode, Ref x) {
  if (mode == "floor") return d.round(Opcode::FLOOR, x);
  if (mode == "ceil") return d.round(Opcode::CEIL, x);
  if (mode == "round_prefer_ceil") return d.round(Opcode::FLOOR, d.add(x, d.number(0.5)));
  return d.round(Opcode::CEIL, d.sub(x, d.number(0.5)));
}

// One axis of a Resize: where each tap reads, and its weight.
struct Tap {
  Coord place;
  Ref weight = -1;  // FLOAT64
};
struct ResizedAxis {
  size_t dim;
  std::vector<Tap> taps;
};

// The value at the samples: along one axis after the other, the first innermost, in type `type`.
struct Mixer {
  IrBuilder& b;
  const std::vector<ResizedAxis>& axes;
  DType type;
  std::function<Ref(const Coords&)> read;

  Ref nearest(Coords at) const {
    for (const ResizedAxis& axis : axes) at[axis.dim] = axis.taps[0].place;
    return read(at);
  }
  Ref linear(const Coords& at) const { return along(axes.size(), at); }

 private:
  Ref along(size_t count, Coords at) const {
    if (count == 0) return b.cast(read(at), type);
    const ResizedAxis& axis = axes[count - 1];
    Ref sum = -1;
    for (const Tap& tap : axis.taps) {
      at[axis.dim] = tap.place;
      const Ref part = b.binary(Opcode::MUL, b.cast(tap.weight, type), along(count - 1, at));
      sum = sum < 0 ? part : b.binary(Opcode::ADD, sum, part);
    }
    return sum;
  }
};

// A real number as an integer: to the nearest, within the type's limits.
Ref rounded(Doubles& d, IrBuilder& b, Ref x, DType type) {
  const unsigned bits = 8 * static_cast<unsigned>(dtype_size(type));
  const bool is_signed = type == DType::INT8 || type == DType::INT16 || type == DType::INT32 || type == DType::INT64;
  const double high = std::ldexp(1, static_cast<int>(is_signed ? bits - 1 : bits)) - 1;
  const double low = is_signed ? -std::ldexp(1, static_cast<int>(bits - 1)) : 0;
  const Ref whole = d.round(Opcode::ROUND, x);
  const Ref inside = b.binary(Opcode::MIN, b.binary(Opcode::MAX, whole, d.number(low)), d.number(high));
  return b.cast(inside, compute_type(type));
}

// The scale of one axis: as given, or the ratio of the sizes, also where a float only rounds that.
class Scales {
 public:
  Scales(Doubles& d, IrBuilder& b, const Dim& in, const Dim& out) : d_(d), b_(b), in_(in), out_(out) {}

  Ref of(std::optional<double> given, Ref computed, const std::function<Ref(const Dim&)>& size) {
    if (given && *given == std::floor(*given) && std::abs(*given) < 1e6 &&
        out_ == in_ * Dim(static_cast<int64_t>(*given))) {
      return d_.number(*given);
    }
    const Ref ratio = d_.div(size(out_), size(in_));
    const Ref scale = given ? d_.number(*given) : computed;
    if (scale < 0) return ratio;
    const double epsilon = std::numeric_limits<float>::epsilon();
    if (d_.known(ratio) && given) {
      return std::abs(*d_.known(ratio) - *given) <= epsilon * std::abs(*given) ? ratio : scale;
    }
    const Ref apart = b_.unary(Opcode::ABS, d_.sub(ratio, scale));
    const Ref rounds = b_.binary(Opcode::LE, apart, d_.mul(d_.number(epsilon), b_.unary(Opcode::ABS, scale)));
    return b_.select(rounds, ratio, scale);
  }

  // Does the axis stay as it is?
  bool is_identity(std::optional<double> given, bool by_scales) const {
    if (!(in_ == out_)) return false;
    return !by_scales || (given && std::abs(1 - *given) <= std::numeric_limits<float>::epsilon() * std::abs(*given));
  }

 private:
  Doubles& d_;
  IrBuilder& b_;
  const Dim& in_;
  const Dim& out_;
};

}  // namespace

Refusal why_not_resize(const OpView& op) {
  const std::string mode = op.attrs->get_string("mode", "nearest");
  const std::string transform = op.attrs->get_string("coordinate_transformation_mode", "half_pixel");
  const auto refuse = [](const std::string& what) {
    return Refusal{Why::OP_NOT_GENERATED, "Resize " + what + " is not generated"};
  };
  if (mode != "nearest" && mode != "linear") return refuse("by " + mode);
  if (std::find(kTransforms.begin(), kTransforms.end(), transform) == kTransforms.end()) {
    return refuse("by " + transform);
  }
  if (op.attrs->get_int("antialias", 0) != 0) return refuse("with antialias");
  if (mode == "linear" && op.attrs->get_int("exclude_outside", 0) != 0) return refuse("with exclude_outside");
  if (mode == "linear" && op.inputs[0].dtype == DType::BOOL) return refuse("of bool by linear");
  for (size_t i : {size_t{2}, size_t{3}}) {
    if (op.has(i) && !op.inputs[i].shape.ranked()) return {Why::UNKNOWN_RANK, "the number of scales is not known"};
  }
  const bool by_scales = has_elements(op, 2);
  if (!by_scales && op.attrs->get_string("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return refuse("to sizes that keep the aspect ratio");
  }
  if (by_scales && !(op.inputs[2].shape.count() == static_cast<int64_t>(resized_axes(op).size()))) {
    return {Why::VIEW_NOT_CONSTANT, "the scales of Resize do not fit its axes"};
  }
  return {};
}

RegionBuilder::Ref RegionBuilder::eval_resize(const RegionOp& op, const Coords& coords, Ref guard) {
  Doubles d(builder_);
  const OpView& view = op.view;
  const bool linear = view.attrs->get_string("mode", "nearest") == "linear";
  const bool by_scales = has_elements(view, 2);
  const auto real_size = [&](const Dim& dim) { return d.of(size(dim)); };
  const std::vector<int> order = resized_axes(view);
  std::vector<ResizedAxis> axes;
  for (size_t k = 0; k < order.size(); ++k) {
    const auto at = static_cast<size_t>(order[k]);
    const Dim& in = shape(op.inputs[0])[order[k]];
    const Dim& out = shape(op.output)[order[k]];
    std::optional<double> given;
    if (by_scales && view.constants[2] != nullptr) given = view.constants[2]->to_f64()[k];
    Scales scales(d, builder_, in, out);
    if (scales.is_identity(given, by_scales)) continue;
    ResizedAxis& axis = axes.emplace_back();
    axis.dim = at;
    Ref computed = -1;
    if (by_scales && !given) computed = d.of(eval(op.inputs[2], {shifted({}, static_cast<int64_t>(k))}, -1));
    Source source{view.attrs->get_string("coordinate_transformation_mode", "half_pixel"), real_size(in), -1, -1};
    source.scale = scales.of(given, computed, real_size);
    const bool needs_out = source.transform != "half_pixel" && source.transform != "asymmetric";
    if (needs_out) source.out = real_size(out);
    const Ref x = source_coordinate(d, builder_, source, d.of(index(coords[at])));
    const Ref last = d.sub(source.in, d.number(1));
    const auto place = [&](Ref where) {
      return in == 1 ? Coord{} : Coord{{}, {}, builder_.cast(d.limit(where, last), DType::INT64)};
    };
    if (!linear) {
      axis.taps.push_back({place(nearest(d, view.attrs->get_string("nearest_mode", "round_prefer_floor"), x)), -1});
      continue;
    }
    const Ref left = d.sub(d.round(Opcode::CEIL, x), d.number(1));  // the neighbour strictly below x
    for (const Ref tap : {left, d.add(left, d.number(1))}) {
      const Ref distance = builder_.unary(Opcode::ABS, d.sub(tap, x));
      axis.taps.push_back({place(tap), d.limit(d.sub(d.number(1), distance), d.number(1))});
    }
  }
  const auto read = [&](const Coords& own) {
    const size_t before = builder_.kernel.insts.size();
    const bool first = known_[op.inputs[0]].empty();
    const Ref x = eval(op.inputs[0], own, guard);
    // Where an image grows, what it is made of is computed again for each sample.
    if (first && !axes.empty() && producer_.count(op.inputs[0]) != 0) count_again(before);
    return x;
  };
  if (!linear) return Mixer{builder_, axes, DType::UNDEFINED, read}.nearest(coords);
  if (axes.size() > kMostAxes) throw Refusal{Why::RECOMPUTED, "Resize mixes along more than three axes"};
  const DType out = type(op.output).dtype;
  if (axes.empty()) return read(coords);
  if (is_integer(out)) return rounded(d, builder_, Mixer{builder_, axes, DType::FLOAT64, read}.linear(coords), out);
  return Mixer{builder_, axes, compute_type(out), read}.linear(coords);
}

}  // namespace deepjit
