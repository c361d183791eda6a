// MaxPool, AveragePool, GlobalAveragePool and GlobalMaxPool in both layouts.
#include "kernels/onednn/families.h"
#include "kernels/onednn/layout.h"
#include "ops/linear/conv_shape.h"

namespace deepjit::onednn {

namespace {

using PoolDesc = dnnl::pooling_forward::primitive_desc;

struct Problem {
  dnnl::algorithm algorithm;
  memory::desc src, dst;
  memory::dims kernel, strides, dilations, pads_begin, pads_end;
  std::string reason;
};

void describe_windows(const StepShape& shape, const std::vector<int64_t>& image, Problem& p) {
  const Attributes& attrs = shape.step->attrs;
  const ConvGeometry g = pool_geometry(attrs, image);
  const bool counts_pads = attrs.get_int("count_include_pad", 0) != 0;
  for (size_t i = 0; i < image.size(); ++i) {
    // The padding that the last window needs; ceil_mode makes it more than the attribute says.
    const int64_t end = (g.out[i] - 1) * g.strides[i] + g.extent(i) - image[i] - g.pads_begin[i];
    if (counts_pads && end > g.pads_end[i]) {
      p.reason = "oneDNN counts the cells beyond the padding that ceil_mode reaches";
    }
    p.kernel.push_back(g.kernel[i]);
    p.strides.push_back(g.strides[i]);
    p.dilations.push_back(g.dilations[i] - 1);
    p.pads_begin.push_back(g.pads_begin[i]);
    p.pads_end.push_back(end);
  }
  if (p.algorithm == dnnl::algorithm::pooling_avg_exclude_padding && counts_pads) {
    p.algorithm = dnnl::algorithm::pooling_avg_include_padding;
  }
}

Problem describe_problem(const StepShape& shape) {
  Problem p;
  const std::string op = base_op(*shape.step);
  const Dims &x = in(shape, 0).dims, &y = out(shape, 0).dims;
  const bool is_max = op == "MaxPool" || op == "GlobalMaxPool";
  p.algorithm = is_max ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_exclude_padding;
  if (x.rank() < 3 || x.rank() > 5) p.reason = "oneDNN pools 1 to 3 spatial dims";
  if (wants_output(shape, 1)) p.reason = "oneDNN's indices are not ONNX's";
  if (!p.reason.empty()) return p;
  const ActivationLayout layout{x.rank(), is_channels_last(shape.step->attrs)};
  p.src = layout.desc(DType::FLOAT32, x);
  p.dst = layout.desc(DType::FLOAT32, y);
  const std::vector<int64_t> image = spatial_dims(layout.channels_last, to_vector(x));
  if (op.rfind("Global", 0) == 0) {
    p.kernel = p.strides = image;
    p.dilations = p.pads_begin = p.pads_end = memory::dims(image.size(), 0);
  } else {
    describe_windows(shape, image, p);
  }
  return p;
}

PoolDesc create(const Problem& p) {
  return PoolDesc(engine(), dnnl::prop_kind::forward_inference, p.algorithm, p.src, p.dst, p.strides, p.kernel,
                  p.dilations, p.pads_begin, p.pads_end, base_attr(), true);
}

Variants pool_variants(const StepShape& shape) {
  Variants variants;
  variants.reason = common_obstacle(shape, DType::FLOAT32);
  if (!variants.reason.empty()) return variants;
  const Problem p = describe_problem(shape);
  variants.reason = p.reason;
  if (!p.reason.empty()) return variants;
  append_impls(create(p), "", variants);
  if (variants.names.empty()) variants.reason = "oneDNN has only its reference implementation for this pool";
  return variants;
}

std::unique_ptr<PrimitiveKernel> make_pool(const StepShape& shape, const Tactic& tactic) {
  const Problem p = describe_problem(shape);
  PoolDesc pd;
  const std::function<PoolDesc()> make_desc = [&] { return create(p); };
  if (!p.reason.empty() || !select_impl<PoolDesc>(pd, make_desc, tactic.variant)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const int src = kernel->input(0, p.src), dst = kernel->output(0, p.dst);
  kernel->add<dnnl::pooling_forward>(pd, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
  return kernel;
}

}  // namespace

Family pool_family() {
  return {{"MaxPool", "deepjit.MaxPool", "AveragePool", "deepjit.AveragePool", "GlobalAveragePool",
           "deepjit.GlobalAveragePool", "GlobalMaxPool", "deepjit.GlobalMaxPool"},
          pool_variants,
          make_pool};
}

}  // namespace deepjit::onednn
