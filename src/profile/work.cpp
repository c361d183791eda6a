#include "profile/work.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ops/op.h"
#include "runtime/bound_ops.h"

namespace deepjit::profile {

namespace {

double count(const TensorDesc& desc) {
  return desc.dtype == DType::UNDEFINED || is_object(desc.dtype) ? 0 : static_cast<double>(desc.count());
}

double bytes(const TensorDesc& desc) {
  return count(desc) * (desc.dtype == DType::UNDEFINED ? 0 : static_cast<double>(dtype_size(desc.dtype)));
}

// What an op reads and writes.
struct Operands {
  const Step& step;
  const std::vector<TensorDesc>& in;
  const std::vector<TensorDesc>& out;

  const TensorDesc& input(size_t i) const {
    static const TensorDesc none;
    return i < in.size() ? in[i] : none;
  }
  double results() const { return out.empty() ? 0 : count(out[0]); }
};

double dim_from_end(const TensorDesc& desc, int from_end) {
  const int rank = desc.dims.rank();
  return rank < from_end ? 1 : static_cast<double>(desc.dims[rank - from_end]);
}

// One result element is a sum over the last axis of A, or its last but one.
double of_matmul(const Operands& o) {
  const bool transposed = o.step.attrs.get_int("trans_a", o.step.attrs.get_int("transA", 0)) != 0;
  return 2 * o.results() * dim_from_end(o.input(0), transposed && o.input(0).dims.rank() > 1 ? 2 : 1);
}

// W holds one filter for each output channel.
double of_conv(const Operands& o) {
  if (o.out.empty() || o.out[0].dims.rank() < 2) return 0;
  const bool last = o.step.attrs.get_string("layout", "NCHW") == "NHWC";
  const double channels = static_cast<double>(o.out[0].dims[last ? o.out[0].dims.rank() - 1 : 1]);
  return channels == 0 ? 0 : 2 * o.results() * count(o.input(1)) / channels;
}

double of_quantized_conv(const Operands& o) {
  const TensorDesc& w = o.input(3);
  return w.dims.rank() < 1 || w.dims[0] == 0 ? 0 : 2 * o.results() * count(w) / static_cast<double>(w.dims[0]);
}

double of_conv_transpose(const Operands& o) {
  const TensorDesc& w = o.input(1);
  return w.dims.rank() < 1 || w.dims[0] == 0 ? 0 : 2 * count(o.input(0)) * count(w) / static_cast<double>(w.dims[0]);
}

// X [sequence, batch, size], W and R [directions, gates, size].
double of_recurrent(const Operands& o) {
  const TensorDesc& x = o.input(0);
  if (x.dims.rank() < 2) return 0;
  return 2 * static_cast<double>(x.dims[0] * x.dims[1]) * (count(o.input(1)) + count(o.input(2)));
}

// Q K^T and the product with V, either in [batch, heads, sequence, size] or [batch, sequence, heads * size].
double of_attention(const Operands& o) {
  const TensorDesc& k = o.input(1);
  if (k.dims.rank() < 3) return 0;
  const double keys = dim_from_end(k, 2);
  return 2 * keys * count(o.input(0)) + 2 * keys * o.results();
}

// The same where Q, K and V are parts of longer rows.
double of_attention_rows(const Operands& o) {
  const TensorDesc& k = o.input(1);
  if (k.dims.rank() != 3) return 0;
  const std::vector<int64_t> first = o.step.attrs.get_ints("tokens_first", {0, 0, 0, 0});
  return 4 * dim_from_end(k, first.size() > 1 && first[1] != 0 ? 3 : 2) * o.results();
}

// The product of all labels' sizes.
double of_einsum(const Operands& o) {
  const std::string equation = o.step.attrs.get_string("equation", "");
  std::map<char, double> sizes;
  size_t at = 0;
  for (size_t i = 0; i < o.in.size(); ++i) {
    int axis = 0;
    for (; at < equation.size() && equation[at] != ',' && equation[at] != '-'; ++at) {
      if (equation[at] == '.') return 2 * o.results();
      if (equation[at] == ' ') continue;
      if (axis < o.in[i].dims.rank()) sizes[equation[at]] = static_cast<double>(o.in[i].dims[axis++]);
    }
    ++at;
  }
  double product = o.in.size() > 1 ? 2 : 1;
  for (const auto& [label, size] : sizes) product *= size;
  return product;
}

double of_pool(const Operands& o) {
  double window = 1;
  for (int64_t k : o.step.attrs.get_ints("kernel_shape")) window *= static_cast<double>(k);
  return o.results() * window;
}

template <int N>
double per_input(const Operands& o) {
  return N * count(o.input(0));
}

using Rule = double (*)(const Operands&);

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> table = {
      {"MatMul", of_matmul},
      {"deepjit.MatMul", of_matmul},
      {"Gemm", of_matmul},
      {"MatMulInteger", of_matmul},
      {"QLinearMatMul", of_matmul},
      {"Conv", of_conv},
      {"deepjit.Conv", of_conv},
      {"ConvInteger", of_conv},
      {"DeformConv", of_conv},
      {"QLinearConv", of_quantized_conv},
      {"ConvTranspose", of_conv_transpose},
      {"deepjit.ConvTranspose", of_conv_transpose},
      {"RNN", of_recurrent},
      {"GRU", of_recurrent},
      {"LSTM", of_recurrent},
      {"deepjit.DynamicQuantizeLSTM", of_recurrent},
      {"Attention", of_attention},
      {"deepjit.Attention", of_attention_rows},
      {"Einsum", of_einsum},
      {"MaxPool", of_pool},
      {"deepjit.MaxPool", of_pool},
      {"AveragePool", of_pool},
      {"deepjit.AveragePool", of_pool},
      {"LpPool", of_pool},
      {"GlobalAveragePool", per_input<1>},
      {"deepjit.GlobalAveragePool", per_input<1>},
      {"GlobalMaxPool", per_input<1>},
      {"ArgMax", per_input<1>},
      {"ArgMin", per_input<1>},
      {"CumSum", per_input<1>},
      // The largest, subtract, exp, sum, divide.
      {"Softmax", per_input<5>},
      {"LogSoftmax", per_input<5>},
      // Two sums, a square, subtract, scale, weight and bias.
      {"LayerNormalization", per_input<7>},
      {"GroupNormalization", per_input<7>},
      {"InstanceNormalization", per_input<7>},
      {"MeanVarianceNormalization", per_input<5>},
      {"RMSNormalization", per_input<4>},
      {"LpNormalization", per_input<3>},
      {"BatchNormalization", per_input<2>},
  };
  return table;
}

// Reads of its first operand only what it gives on.
bool picks(const std::string& op) {
  return op == "Gather" || op == "GatherElements" || op == "GatherND" || op == "Slice";
}

TensorDesc desc_of(const Binding& binding, int32_t buffer) {
  return buffer < 0 ? TensorDesc{} : binding.slots[static_cast<size_t>(buffer)].desc;
}

// The shapes inside a region, which no slot holds.
class Inside {
 public:
  Inside(const Program& program, const Binding& binding) : program_(program), binding_(binding) {}

  double flops(const Step& region) {
    for (int32_t buffer : region.inputs) enter(buffer);
    return of_block(region.blocks[0]);
  }

 private:
  void enter(int32_t buffer) {
    if (buffer < 0 || states_.count(buffer) != 0) return;
    BufferState state;
    const Tensor& constant = program_.buffers[static_cast<size_t>(buffer)].constant;
    if (auto known = binding_.known.find(buffer); known != binding_.known.end()) {
      state.known = known->second;
    } else if (constant.defined()) {
      state.known = constant;
    }
    const TensorDesc desc = state.known.defined() ? state.known.view().desc() : desc_of(binding_, buffer);
    state.type = {desc.dtype, Shape(desc.dims)};
    state.available = true;
    states_[buffer] = std::move(state);
  }

  double of_block(int32_t block) {
    double total = 0;
    for (int32_t index : program_.blocks[static_cast<size_t>(block)].steps) {
      const Step& step = program_.steps[static_cast<size_t>(index)];
      for (int32_t buffer : step.inputs) enter(buffer);
      total += step.op == kRegionOp ? of_block(step.blocks[0]) : of_step(step);
    }
    return total;
  }

  double of_step(const Step& step) {
    std::vector<const BufferState*> inputs;
    std::vector<TensorDesc> in, out;
    for (int32_t buffer : step.inputs) {
      inputs.push_back(buffer < 0 ? nullptr : &states_[buffer]);
      in.push_back(buffer < 0 ? TensorDesc{} : concrete(states_[buffer].type));
    }
    const std::vector<InferredOutput> inferred = infer_step(step, inputs, next_symbol_);
    for (size_t i = 0; i < inferred.size(); ++i) {
      const bool made = step.outputs[i] >= 0;
      out.push_back(made ? concrete(inferred[i].type) : TensorDesc{});
      if (made) states_[step.outputs[i]] = {inferred[i].type, inferred[i].known(), true};
    }
    return flops_of(step, in, out);
  }

  static TensorDesc concrete(const TensorType& type) {
    const auto dims = type.shape.as_const();
    return dims ? TensorDesc{type.dtype, *dims} : TensorDesc{};
  }

  const Program& program_;
  const Binding& binding_;
  std::unordered_map<int32_t, BufferState> states_;
  int64_t next_symbol_ = 1;
};

double bytes_of(const Binding& binding, const BoundStep& bound) {
  double total = 0;
  double written = 0;
  for (int32_t buffer : bound.outputs) written += bytes(desc_of(binding, buffer));
  for (size_t i = 0; i < bound.inputs.size(); ++i) {
    const auto first = bound.inputs.begin();
    if (std::find(first, first + static_cast<std::ptrdiff_t>(i), bound.inputs[i]) !=
        first + static_cast<std::ptrdiff_t>(i))
      continue;
    const double read = bytes(desc_of(binding, bound.inputs[i]));
    total += i == 0 && bound.step != nullptr && picks(bound.step->op) ? std::min(read, written) : read;
  }
  return total + written;
}

}  // namespace

double flops_of(const Step& step, const std::vector<TensorDesc>& inputs, const std::vector<TensorDesc>& outputs) {
  const Operands o{step, inputs, outputs};
  if (const auto rule = rules().find(step.op); rule != rules().end()) return rule->second(o);
  if (step.op.rfind("Reduce", 0) == 0) return count(o.input(0));
  const OpDef* op = op_registry().find(step.op);
  if (op == nullptr || !op->pointwise) return 0;
  // Add, Max and the like of n operands take n - 1.
  const double operators = op->max_inputs == kMany ? std::max<double>(1, static_cast<double>(inputs.size()) - 1) : 1;
  return operators * o.results();
}

Work work_of(const Program& program, const Binding& binding, const BoundStep& bound) {
  Work work;
  if (bound.kind == BoundStep::Kind::CONTROL) return work;
  work.bytes = bytes_of(binding, bound);
  if (bound.step == nullptr) return work;
  if (bound.step->op == kRegionOp) {
    try {
      work.flops = Inside(program, binding).flops(*bound.step);
    } catch (const Error&) {  // its kernel takes shapes that the steps would not
    }
    return work;
  }
  std::vector<TensorDesc> in, out;
  for (int32_t buffer : bound.inputs) in.push_back(desc_of(binding, buffer));
  for (int32_t buffer : bound.outputs) out.push_back(desc_of(binding, buffer));
  work.flops = flops_of(*bound.step, in, out);
  return work;
}

}  // namespace deepjit::profile
