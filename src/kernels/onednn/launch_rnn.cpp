// LSTM and GRU of one layer, forward, reverse and bidirectional, with default activations.
//
// W, R and B are constants: gates are put into oneDNN's order, both bias halves are added once. oneDNN's
// general implementation ("ref:any") runs on its matrix products and counts as optimised here.
#include <algorithm>
#include <cctype>

#include "kernels/onednn/families.h"

namespace deepjit::onednn {

namespace {

// The gate blocks of [D, 4 * H, ...] in another order: block g of the result is block source[g].
Tensor permute_gates(const Tensor& from, const int (&source)[4]) {
  Tensor to(from.dtype(), from.dims());
  const auto bytes = static_cast<size_t>(from.bytes() / (from.dims()[0] * 4));
  for (int64_t d = 0; d < from.dims()[0]; ++d) {
    for (int g = 0; g < 4; ++g) {
      const size_t base = static_cast<size_t>(d) * 4 * bytes;
      std::memcpy(to.as<char>() + base + static_cast<size_t>(g) * bytes,
                  from.as<char>() + base + static_cast<size_t>(source[g]) * bytes, bytes);
    }
  }
  return to;
}

constexpr int kFromOnnx[4] = {0, 2, 3, 1};  // i f c o out of i o f c
constexpr int kToOnnx[4] = {0, 3, 1, 2};

enum Input { X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES };

struct Problem {
  bool lstm = false, lbr = false;
  int64_t steps, batch, input, hidden, directions, gates;
  dnnl::rnn_direction direction;
  std::string reason;

  int64_t bias_gates() const { return lbr ? gates + 1 : gates; }
  memory::desc weights(int64_t width) const {
    const Dims dims{1, directions, width, gates, hidden};
    return memory::desc(to_dims(dims), memory::data_type::f32, memory::format_tag::ldgoi);
  }
  memory::desc state() const {
    return memory::desc({1, directions, batch, hidden}, memory::data_type::f32, memory::format_tag::ldnc);
  }
};

bool activations_are_default(const Attributes& attrs, bool lstm) {
  const std::vector<std::string> names = attrs.get_strings("activations");
  const std::vector<std::string> defaults =
      lstm ? std::vector<std::string>{"sigmoid", "tanh", "tanh"} : std::vector<std::string>{"sigmoid", "tanh"};
  for (size_t i = 0; i < names.size(); ++i) {
    std::string lower = names[i];
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (lower != defaults[i % defaults.size()]) return false;
  }
  return true;
}

bool lengths_are_full(const StepShape& shape, int64_t steps) {
  if (!has_input(shape, LENGTHS)) return true;
  const Tensor* data = constant_data(shape, LENGTHS);
  if (data == nullptr) return false;
  const std::vector<int64_t> lengths = data->to_i64();
  return std::all_of(lengths.begin(), lengths.end(), [&](int64_t length) { return length == steps; });
}

std::string obstacle(const StepShape& shape, const Tactic& tactic, const Problem& p) {
  const Attributes& attrs = shape.step->attrs;
  if (!is_constant(shape, tactic, W) || !is_constant(shape, tactic, R)) return "the weights are not constant";
  if (has_input(shape, B) && constant_data(shape, B) == nullptr) return "the bias is not constant";
  if (attrs.get_int("layout", 0) != 0) return "batch comes first (layout 1)";
  if (has_input(shape, PEEPHOLES)) return "peepholes";
  if (attrs.has("clip") || attrs.get_int("input_forget", 0) != 0) return "clip or input_forget";
  if (!activations_are_default(attrs, p.lstm)) return "activations other than the defaults";
  return lengths_are_full(shape, p.steps) ? "" : "sequence lengths differ or are computed at run time";
}

Problem describe_problem(const StepShape& shape, const Tactic& tactic) {
  Problem p;
  const Dims &x = in(shape, X).dims, &r = in(shape, R).dims;
  p.lstm = shape.step->op == "LSTM";
  p.lbr = !p.lstm && shape.step->attrs.get_int("linear_before_reset", 0) != 0;
  p.steps = x[0];
  p.batch = x[1];
  p.input = x[2];
  p.directions = r[0];
  p.hidden = r[2];
  p.gates = p.lstm ? 4 : 3;
  const std::string direction = shape.step->attrs.get_string("direction", "forward");
  p.direction = direction == "forward"   ? dnnl::rnn_direction::unidirectional_left2right
                : direction == "reverse" ? dnnl::rnn_direction::unidirectional_right2left
                                         : dnnl::rnn_direction::bidirectional_concat;
  p.reason = obstacle(shape, tactic, p);
  return p;
}

// What the primitive reads and writes; state descs are zero where there is none.
struct Descs {
  memory::desc src, weights, recurrent, bias, dst, initial, final;
};

Descs make_descs(const StepShape& shape, const Problem& p) {
  const auto f32 = memory::data_type::f32;
  Descs d;
  d.src = plain_desc(DType::FLOAT32, Dims{p.steps, p.batch, p.input});
  // Left to choose, oneDNN 3.2 packs a GRU's weights for a single step or a batch of 16 and more; its product of packed
  // weights divides by zero unless their rows come in sixteens.
  const auto layout = p.lstm || p.hidden % 16 == 0 ? memory::format_tag::any : memory::format_tag::ldigo;
  d.weights = memory::desc({1, p.directions, p.input, p.gates, p.hidden}, f32, layout);
  d.recurrent = memory::desc({1, p.directions, p.hidden, p.gates, p.hidden}, f32, layout);
  d.bias = memory::desc({1, p.directions, p.bias_gates(), p.hidden}, f32, memory::format_tag::ldgo);
  d.dst = plain_desc(DType::FLOAT32, Dims{p.steps, p.batch, p.directions * p.hidden});
  if (has_input(shape, INITIAL_H) || has_input(shape, INITIAL_C)) d.initial = p.state();
  if (wants_output(shape, 1) || wants_output(shape, 2)) d.final = p.state();
  return d;
}

using LstmDesc = dnnl::lstm_forward::primitive_desc;

template <typename PrimitiveDesc>
PrimitiveDesc create(const Problem& p, const Descs& d) {
  const auto kind = dnnl::prop_kind::forward_inference;
  if constexpr (std::is_same_v<PrimitiveDesc, LstmDesc>) {
    return LstmDesc(engine(), kind, p.direction, d.src, d.initial, d.initial, d.weights, d.recurrent, d.bias, d.dst,
                    d.final, d.final, base_attr(), true);
  } else {
    return PrimitiveDesc(engine(), kind, p.direction, d.src, d.initial, d.weights, d.recurrent, d.bias, d.dst, d.final,
                         base_attr(), true);
  }
}

// [D, bias gates, H]: input and recurrent halves added, except the recurrent part of lbr_gru's last gate.
Tensor fold_bias(const StepShape& shape, const Problem& p) {
  Tensor bias(DType::FLOAT32, Dims{p.directions, p.bias_gates(), p.hidden});
  std::fill_n(bias.as<float>(), bias.count(), 0.0f);
  if (!has_input(shape, B)) return bias;
  const Tensor* given = constant_data(shape, B);
  for (int64_t d = 0; d < p.directions; ++d) {
    const float* layer = given->as<float>() + d * 2 * p.gates * p.hidden;
    const float* recurrent = layer + p.gates * p.hidden;
    float* to = bias.as<float>() + d * p.bias_gates() * p.hidden;
    for (int64_t g = 0; g < p.gates; ++g) {
      const int64_t from = p.lstm ? kFromOnnx[g] : g;
      const bool apart = p.lbr && g == 2;
      for (int64_t h = 0; h < p.hidden; ++h) {
        const float r = recurrent[from * p.hidden + h];
        to[g * p.hidden + h] = layer[from * p.hidden + h] + (apart ? 0 : r);
        if (apart) to[3 * p.hidden + h] = r;
      }
    }
  }
  return bias;
}

int initial_state(PrimitiveKernel& kernel, const StepShape& shape, const Problem& p, int input) {
  if (has_input(shape, input)) return kernel.input(input, p.state());
  Tensor zeros(DType::FLOAT32, Dims{p.directions, p.batch, p.hidden});
  std::fill_n(zeros.as<float>(), zeros.count(), 0.0f);
  return kernel.constant(p.state(), zeros);
}

int output_or_temporary(PrimitiveKernel& kernel, const StepShape& shape, int i, const memory::desc& desc) {
  return wants_output(shape, i) ? kernel.output(i, desc) : kernel.temporary(desc);
}

// Y is [S, D, B, H]; oneDNN writes [S, B, D * H].
void copy_directions(PrimitiveKernel& kernel, const StepShape& shape, const Problem& p, int slot) {
  const Dims dims{p.steps, p.batch, p.directions, p.hidden};
  const int order[] = {0, 2, 1, 3};
  const int from = kernel.alias(slot, plain_desc(DType::FLOAT32, dims));
  kernel.copy(from, kernel.output(0, permuted_desc(DType::FLOAT32, dims, order)));
}

template <typename Primitive, typename PrimitiveDesc>
std::unique_ptr<PrimitiveKernel> build(const StepShape& shape, const Tactic& tactic, const Problem& p) {
  const Descs d = make_descs(shape, p);
  PrimitiveDesc pd;
  const std::function<PrimitiveDesc()> make_desc = [&] { return create<PrimitiveDesc>(p, d); };
  if (!select_impl<PrimitiveDesc>(pd, make_desc, tactic.variant, is_any)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const WeightsTransform transform = p.lstm ? kLstmGates : WeightsTransform{};
  const memory::desc w = pd.weights_layer_desc(), r = pd.weights_iter_desc();
  ArgList args{{DNNL_ARG_SRC_LAYER, kernel->input(X, d.src)},
               {DNNL_ARG_WEIGHTS_LAYER, weights(*kernel, shape, tactic, W, p.weights(p.input), w, transform)},
               {DNNL_ARG_WEIGHTS_ITER, weights(*kernel, shape, tactic, R, p.weights(p.hidden), r, transform)},
               {DNNL_ARG_BIAS, kernel->constant(d.bias, fold_bias(shape, p))}};
  if (!d.initial.is_zero()) {
    args.emplace_back(DNNL_ARG_SRC_ITER, initial_state(*kernel, shape, p, INITIAL_H));
    if (p.lstm) args.emplace_back(DNNL_ARG_SRC_ITER_C, initial_state(*kernel, shape, p, INITIAL_C));
  }
  if (!d.final.is_zero()) {
    args.emplace_back(DNNL_ARG_DST_ITER, output_or_temporary(*kernel, shape, 1, d.final));
    if (p.lstm) args.emplace_back(DNNL_ARG_DST_ITER_C, output_or_temporary(*kernel, shape, 2, d.final));
  }
  const bool direct = wants_output(shape, 0) && p.directions == 1;
  const int dst = direct ? kernel->output(0, d.dst) : kernel->temporary(d.dst);
  args.emplace_back(DNNL_ARG_DST_LAYER, dst);
  kernel->add<Primitive>(pd, args);
  if (!direct && wants_output(shape, 0)) copy_directions(*kernel, shape, p, dst);
  return kernel;
}

Variants rnn_variants(const StepShape& shape) {
  Variants variants;
  variants.reason = common_obstacle(shape, DType::FLOAT32, LENGTHS);
  if (!variants.reason.empty()) return variants;
  const Problem p = describe_problem(shape, Tactic());
  variants.reason = p.reason;
  if (!p.reason.empty()) return variants;
  const Descs d = make_descs(shape, p);
  if (p.lstm) {
    append_impls(create<LstmDesc>(p, d), "", variants, is_any);
  } else if (p.lbr) {
    append_impls(create<dnnl::lbr_gru_forward::primitive_desc>(p, d), "", variants, is_any);
  } else {
    append_impls(create<dnnl::gru_forward::primitive_desc>(p, d), "", variants, is_any);
  }
  if (variants.names.empty()) variants.reason = "oneDNN has no implementation for this " + shape.step->op;
  return variants;
}

std::unique_ptr<PrimitiveKernel> make_rnn(const StepShape& shape, const Tactic& tactic) {
  const Problem p = describe_problem(shape, tactic);
  if (!p.reason.empty()) return nullptr;
  if (p.lstm) return build<dnnl::lstm_forward, LstmDesc>(shape, tactic, p);
  if (p.lbr) return build<dnnl::lbr_gru_forward, dnnl::lbr_gru_forward::primitive_desc>(shape, tactic, p);
  return build<dnnl::gru_forward, dnnl::gru_forward::primitive_desc>(shape, tactic, p);
}

}  // namespace

const WeightsTransform kLstmGates = {"lstm/", [](const Tensor& t) { return permute_gates(t, kFromOnnx); },
                                     [](const Tensor& t) { return permute_gates(t, kToOnnx); }};

Family rnn_family() { return {{"LSTM", "GRU"}, rnn_variants, make_rnn}; }

}  // namespace deepjit::onednn
