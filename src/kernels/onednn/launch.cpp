// The run side of the oneDNN provider: finds the family of a step and lets it build the kernel.
#include "kernels/kernel.h"
#include "kernels/onednn/families.h"
#include "program/base_op.h"

namespace deepjit {

namespace onednn {

const Family* find_family(const std::string& op) {
  static const std::map<std::string, Family> by_op = [] {
    std::map<std::string, Family> map;
    for (const Family& family : {conv_family(), matmul_family(), eltwise_family(), binary_family(), pool_family(),
                                 norm_family(), reduce_family(), move_family(), resize_family(), rnn_family(),
                                 integer_matmul_family(), integer_conv_family()}) {
      for (const std::string& name : family.ops) map.emplace(name, family);
    }
    return map;
  }();
  const auto found = by_op.find(op);
  return found == by_op.end() ? nullptr : &found->second;
}

namespace {

constexpr int64_t kSmallProducts = 1 << 20;  // multiplications: some 10 us
constexpr int64_t kSmallElements = 1 << 15;  // read and written

// Multiplications of the ops that are made of them; 0 for others.
int64_t products_of(const StepShape& shape) {
  const std::string op = base_op(*shape.step);
  const auto count = [&](int k) { return has_input(shape, k) ? in(shape, k).count() : 0; };
  const auto first = [&](int k) {
    return has_input(shape, k) && in(shape, k).dims.rank() > 0 ? std::max<int64_t>(in(shape, k).dims[0], 1) : 1;
  };
  const int64_t results = out(shape, 0).dtype == DType::UNDEFINED ? 0 : out(shape, 0).count();
  if (op == "Conv" || op == "ConvInteger") return results * (count(1) / first(1));
  if (op == "QLinearConv") return results * (count(3) / first(3));
  if (op == "ConvTranspose") return count(0) * (count(1) / first(1));
  if (op == "LSTM" || op == "GRU") {
    const Dims& x = in(shape, 0).dims;
    return x.rank() == 3 ? x[0] * x[1] * (count(1) + count(2)) : 0;
  }
  if (op == "MatMul" || op == "Gemm" || op == "MatMulInteger" || op == "QLinearMatMul") {
    const Dims& a = in(shape, 0).dims;
    const bool by_rows = op == "Gemm" && shape.step->attrs.get_int("transA", 0) != 0;
    return a.rank() == 0 ? 0 : results * (by_rows ? a[0] : a.back());
  }
  return 0;
}

}  // namespace

bool is_small(const StepShape& shape) {
  const int64_t products = products_of(shape);
  if (products > 0) return products <= kSmallProducts;
  int64_t elements = 0;
  for (const TensorDesc& desc : shape.inputs) elements += desc.dtype == DType::UNDEFINED ? 0 : desc.count();
  for (const TensorDesc& desc : shape.outputs) elements += desc.dtype == DType::UNDEFINED ? 0 : desc.count();
  return elements <= kSmallElements;
}

std::unique_ptr<PrimitiveKernel> make_kernel(const Family& family, const StepShape& shape, const Tactic& tactic) {
  const bool serial = is_small(shape);
  const ThreadScope threads(serial ? 1 : 0);
  std::unique_ptr<PrimitiveKernel> kernel = family.make(shape, tactic);
  if (kernel != nullptr && serial) kernel->set_serial();
  return kernel;
}

std::string base_op(const Step& step) { return deepjit::base_op(step.op); }

std::string common_obstacle(const StepShape& shape, DType dtype, size_t inputs) {
  std::vector<TensorDesc> operands(shape.inputs.begin(),
                                   shape.inputs.begin() + static_cast<int64_t>(std::min(inputs, shape.inputs.size())));
  operands.insert(operands.end(), shape.outputs.begin(), shape.outputs.end());
  for (const TensorDesc& desc : operands) {
    if (desc.dtype == DType::UNDEFINED) continue;
    if (desc.dtype != dtype) return "element type " + std::string(dtype_name(desc.dtype)) + " is not handled";
    if (desc.count() == 0) return "an operand is empty";
  }
  return "";
}

std::pair<std::string, std::string> split_variant(const std::string& variant) {
  const size_t slash = variant.find('/');
  if (slash == std::string::npos) return {"", variant};
  return {variant.substr(0, slash), variant.substr(slash + 1)};
}

}  // namespace onednn

namespace {

class OnednnLauncher : public Launcher {
 public:
  std::string name() const override { return "onednn"; }

  std::unique_ptr<Kernel> make(const StepShape& shape, const Tactic& tactic) const override {
    const onednn::Family* family = onednn::find_family(shape.step->op);
    if (family == nullptr) return nullptr;
    for (const TensorDesc& desc : shape.outputs) {
      if (desc.dtype != DType::UNDEFINED && desc.count() == 0) return nullptr;
    }
    if (shape.inputs.empty() || shape.inputs[0].count() == 0) return nullptr;
    try {
      return onednn::make_kernel(*family, shape, tactic);
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_unimplemented || error.status == dnnl_invalid_arguments) return nullptr;
      onednn::rethrow(error);
    }
  }

  Tensor unpack(const PackedOperand& packed, const TensorDesc& plain) const override {
    Tensor result(plain.dtype, plain.dims);
    try {
      const onednn::WeightsTransform* transform = nullptr;
      std::string format = packed.format;
      for (const onednn::WeightsTransform* candidate :
           {&onednn::kLstmGates, &onednn::kFlippedWeights, &onednn::kTapWeights}) {
        if (packed.format.rfind(candidate->prefix, 0) != 0) continue;
        transform = candidate;
        format = packed.format.substr(candidate->prefix.size());
      }
      const onednn::StoredOperand stored = onednn::parse_stored(format, packed.data.bytes());
      if (static_cast<int64_t>(stored.plain.get_size()) != plain.bytes()) {
        throw Error(Code::ENGINE_RANGE,
                    "packed operand \"" + packed.format + "\" does not fit its plain form " + plain.dims.to_string());
      }
      onednn::reorder_now(stored.stored, packed.data.view().data, stored.plain, result.view().data);
      if (transform != nullptr) result = transform->back(result);
    } catch (const dnnl::error& error) {
      onednn::rethrow(error);
    }
    return result;
  }
};

}  // namespace

const Launcher& onednn_launcher() {
  static const OnednnLauncher launcher;
  return launcher;
}

}  // namespace deepjit
