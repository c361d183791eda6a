#include "ops/work.h"

#include <algorithm>
#include <map>

#include "ops/op.h"

namespace deepjit {

namespace {

double count(const TensorDesc& desc) {
  return desc.dtype == DType::UNDEFINED || is_object(desc.dtype) ? 0 : static_cast<double>(desc.count());
}

// What an op reads and writes.
struct Operands {
  const Attributes& attrs;
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
  const bool transposed = o.attrs.get_int("trans_a", o.attrs.get_int("transA", 0)) != 0;
  return 2 * o.results() * dim_from_end(o.input(0), transposed && o.input(0).dims.rank() > 1 ? 2 : 1);
}

// W holds one filter for each output channel.
double of_conv(const Operands& o) {
  if (o.out.empty() || o.out[0].dims.rank() < 2) return 0;
  const bool last = o.attrs.get_string("layout", "NCHW") == "NHWC";
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
  const std::vector<int64_t> first = o.attrs.get_ints("tokens_first", {0, 0, 0, 0});
  return 4 * dim_from_end(k, first.size() > 1 && first[1] != 0 ? 3 : 2) * o.results();
}

// The product of all labels' sizes.
double of_einsum(const Operands& o) {
  const std::string equation = o.attrs.get_string("equation", "");
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
  for (int64_t k : o.attrs.get_ints("kernel_shape")) window *= static_cast<double>(k);
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

}  // namespace

double flops_of(const std::string& op, const Attributes& attrs, const std::vector<TensorDesc>& inputs,
                const std::vector<TensorDesc>& outputs) {
  const Operands o{attrs, inputs, outputs};
  if (const auto rule = rules().find(op); rule != rules().end()) return rule->second(o);
  if (op.rfind("Reduce", 0) == 0) return count(o.input(0));
  const OpDef* def = op_registry().find(op);
  if (def == nullptr || !def->pointwise) return 0;
  // Add, Max and the like of n operands take n - 1.
  const double operators = def->max_inputs == kMany ? std::max<double>(1, static_cast<double>(inputs.size()) - 1) : 1;
  return operators * o.results();
}

bool reads_a_part(const std::string& op) {
  return op == "Gather" || op == "GatherElements" || op == "GatherND" || op == "Slice";
}

}  // namespace deepjit
