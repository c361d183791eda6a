// Resize, where ONNX's coordinates are oneDNN's: sampling at pixel centres with the ratio of the sizes.
//
// Nearest is taken for whole upscaling factors only: there no sample lies between two pixels, so the rounding
// modes agree.
#include <cmath>

#include "kernels/onednn/families.h"
#include "kernels/onednn/layout.h"

namespace deepjit::onednn {

namespace {

using ResizeDesc = dnnl::resampling_forward::primitive_desc;

struct Problem {
  memory::desc src, dst;
  bool nearest = false;
  std::string reason;
};

// Where scales are given, they must be the ratio of the sizes.
bool scales_fit(const StepShape& shape) {
  if (!has_input(shape, 2) || in(shape, 2).count() == 0) return true;
  const Tensor* data = constant_data(shape, 2);
  if (data == nullptr) return false;
  const std::vector<double> scales = data->to_f64();
  const Dims &x = in(shape, 0).dims, &y = out(shape, 0).dims;
  const std::vector<int64_t> axes = shape.step->attrs.get_ints("axes");
  for (size_t i = 0; i < scales.size(); ++i) {
    const int axis = axes.empty() ? static_cast<int>(i) : normalize_axis(axes[i], x.rank());
    const double ratio = static_cast<double>(y[axis]) / static_cast<double>(x[axis]);
    if (std::fabs(ratio - scales[i]) > 1e-6 * ratio) return false;
  }
  return true;
}

std::string nearest_obstacle(const Attributes& attrs, const Dims& x, const Dims& y, const std::string& coordinates) {
  const std::string rounding = attrs.get_string("nearest_mode", "round_prefer_floor");
  for (int i = 0; i < x.rank(); ++i) {
    if (y[i] % x[i] != 0) return "nearest sampling by a factor that is not whole";
  }
  const bool centres = coordinates == "half_pixel" && rounding.rfind("round_prefer", 0) == 0;
  const bool corners = coordinates == "asymmetric" && rounding == "floor";
  return centres || corners ? "" : "oneDNN has no nearest sampling " + coordinates + " " + rounding;
}

std::string linear_obstacle(const Dims& x, const Dims& y, const std::string& coordinates) {
  bool fits = coordinates == "half_pixel" || coordinates == "pytorch_half_pixel";
  for (int i = 0; i < x.rank(); ++i) {
    if (coordinates == "pytorch_half_pixel" && y[i] == 1 && x[i] != 1) fits = false;
  }
  return fits ? "" : "oneDNN has no linear sampling " + coordinates;
}

Problem describe_problem(const StepShape& shape) {
  Problem p;
  const Attributes& attrs = shape.step->attrs;
  const Dims &x = in(shape, 0).dims, &y = out(shape, 0).dims;
  const std::string mode = attrs.get_string("mode", "nearest");
  const std::string coordinates = attrs.get_string("coordinate_transformation_mode", "half_pixel");
  p.nearest = mode == "nearest";
  const bool plain_ratio = attrs.get_string("keep_aspect_ratio_policy", "stretch") == "stretch" && scales_fit(shape);
  if (x.rank() < 3 || x.rank() > 5 || x[0] != y[0]) {
    p.reason = "oneDNN resizes 1 to 3 spatial dims";
  } else if ((!p.nearest && mode != "linear") || attrs.get_int("antialias", 0) != 0) {
    p.reason = "oneDNN has no Resize mode " + mode + " like this";
  } else if (!plain_ratio) {
    p.reason = "the scales are not the ratio of the sizes";
  } else {
    p.reason = p.nearest ? nearest_obstacle(attrs, x, y, coordinates) : linear_obstacle(x, y, coordinates);
  }
  if (!p.reason.empty()) return p;
  // The dim that keeps its size is the channel.
  const int last = x.rank() - 1;
  if (x[1] != y[1] && x[last] != y[last]) {
    p.reason = "all dims are resized";
    return p;
  }
  const ActivationLayout layout{x.rank(), x[1] != y[1]};
  p.src = layout.desc(DType::FLOAT32, x);
  p.dst = layout.desc(DType::FLOAT32, y);
  return p;
}

ResizeDesc create(const Problem& p) {
  const auto algorithm = p.nearest ? dnnl::algorithm::resampling_nearest : dnnl::algorithm::resampling_linear;
  return ResizeDesc(engine(), dnnl::prop_kind::forward_inference, algorithm, p.src, p.dst, base_attr(), true);
}

Variants resize_variants(const StepShape& shape) {
  Variants variants;
  variants.reason = common_obstacle(shape, DType::FLOAT32, 1);
  if (!variants.reason.empty()) return variants;
  const Problem p = describe_problem(shape);
  variants.reason = p.reason;
  if (!p.reason.empty()) return variants;
  append_impls(create(p), "", variants);
  if (variants.names.empty()) variants.reason = "oneDNN has only its reference implementation for this Resize";
  return variants;
}

std::unique_ptr<PrimitiveKernel> make_resize(const StepShape& shape, const Tactic& tactic) {
  const Problem p = describe_problem(shape);
  ResizeDesc pd;
  const std::function<ResizeDesc()> make_desc = [&] { return create(p); };
  if (!p.reason.empty() || !select_impl<ResizeDesc>(pd, make_desc, tactic.variant)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const int src = kernel->input(0, p.src), dst = kernel->output(0, p.dst);
  kernel->add<dnnl::resampling_forward>(pd, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
  return kernel;
}

}  // namespace

Family resize_family() { return {{"Resize", "deepjit.Resize"}, resize_variants, make_resize}; }

}  // namespace deepjit::onednn
