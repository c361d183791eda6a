// ReduceMean, ReduceSum, ReduceMax and ReduceMin over constant axes.
//
// Neighbouring dims that are both kept or both reduced merge first. "reduce/IMPL" is oneDNN's reduction;
// "pool/IMPL" takes [kept, reduced, kept] as a pool over the whole middle, channels last.
#include "kernels/onednn/families.h"
#include "kernels/onednn/layout.h"

namespace deepjit::onednn {

namespace {

using ReduceDesc = dnnl::reduction::primitive_desc;
using PoolDesc = dnnl::pooling_forward::primitive_desc;

struct Problem {
  Dims x, y;  // merged, of one rank
  std::string reason;
};

Problem describe_problem(const StepShape& shape) {
  Problem p;
  const Dims& x = in(shape, 0).dims;
  std::vector<int64_t> axes;
  if (has_input(shape, 1)) {
    const Tensor* data = constant_data(shape, 1);
    if (data == nullptr) {
      p.reason = "the axes are computed at run time";
      return p;
    }
    axes = data->to_i64();
  }
  const bool noop = shape.step->attrs.get_int("noop_with_empty_axes", 0) != 0;
  std::vector<bool> reduced(x.size(), axes.empty() && !noop);
  for (int64_t axis : axes) reduced[static_cast<size_t>(normalize_axis(axis, x.rank()))] = true;
  bool last = false;
  for (int i = 0; i < x.rank(); ++i) {
    if (x[i] == 1) continue;
    const bool now = reduced[static_cast<size_t>(i)];
    if (!p.x.empty() && now == last) {
      p.x.back() *= x[i];
      if (!now) p.y.back() *= x[i];
    } else {
      p.x.push_back(x[i]);
      p.y.push_back(now ? 1 : x[i]);
    }
    last = now;
  }
  if (p.x == p.y) p.reason = "nothing is reduced";
  return p;
}

dnnl::algorithm algorithm_of(const std::string& op) {
  if (op == "ReduceMean") return dnnl::algorithm::reduction_mean;
  if (op == "ReduceSum") return dnnl::algorithm::reduction_sum;
  if (op == "ReduceMax") return dnnl::algorithm::reduction_max;
  return dnnl::algorithm::reduction_min;
}

ReduceDesc create_reduce(const StepShape& shape, const Problem& p) {
  return ReduceDesc(engine(), algorithm_of(shape.step->op), plain_desc(DType::FLOAT32, p.x),
                    plain_desc(DType::FLOAT32, p.y), 0, 0, base_attr(), true);
}

// Empty when the step is not a mean or maximum over the middle.
PoolDesc create_pool(const StepShape& shape, const Problem& p) {
  const bool is_mean = shape.step->op == "ReduceMean";
  Dims x = p.x, y = p.y;
  if (x.rank() == 2 && y[0] == 1) {
    x.insert(0, 1);
    y.insert(0, 1);
  }
  if ((!is_mean && shape.step->op != "ReduceMax") || x.rank() != 3 || y[1] != 1 || y[0] != x[0]) return {};
  const ActivationLayout layout{3, true};
  const auto algorithm = is_mean ? dnnl::algorithm::pooling_avg_exclude_padding : dnnl::algorithm::pooling_max;
  const memory::dims whole{x[1]}, none{0};
  return PoolDesc(engine(), dnnl::prop_kind::forward_inference, algorithm, layout.desc(DType::FLOAT32, x),
                  layout.desc(DType::FLOAT32, y), whole, whole, none, none, none, base_attr(), true);
}

Variants reduce_variants(const StepShape& shape) {
  Variants variants;
  variants.reason = common_obstacle(shape, DType::FLOAT32, 1);
  if (!variants.reason.empty()) return variants;
  const Problem p = describe_problem(shape);
  variants.reason = p.reason;
  if (!p.reason.empty()) return variants;
  append_impls(create_reduce(shape, p), "reduce/", variants);
  append_impls(create_pool(shape, p), "pool/", variants);
  if (variants.names.empty()) variants.reason = "oneDNN has only its reference implementation for this reduction";
  return variants;
}

template <typename Primitive, typename PrimitiveDesc>
std::unique_ptr<PrimitiveKernel> build(const std::function<PrimitiveDesc()>& create, const std::string& impl) {
  PrimitiveDesc pd;
  if (!select_impl<PrimitiveDesc>(pd, create, impl)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const int src = kernel->input(0, pd.src_desc()), dst = kernel->output(0, pd.dst_desc());
  kernel->add<Primitive>(pd, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
  return kernel;
}

std::unique_ptr<PrimitiveKernel> make_reduce(const StepShape& shape, const Tactic& tactic) {
  const Problem p = describe_problem(shape);
  if (!p.reason.empty()) return nullptr;
  const auto [mode, impl] = split_variant(tactic.variant);
  if (mode == "pool") {
    return build<dnnl::pooling_forward, PoolDesc>([&] { return create_pool(shape, p); }, impl);
  }
  return build<dnnl::reduction, ReduceDesc>([&] { return create_reduce(shape, p); }, impl);
}

}  // namespace

Family reduce_family() { return {{"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"}, reduce_variants, make_reduce}; }

}  // namespace deepjit::onednn
