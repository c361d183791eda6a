// RNN, GRU, LSTM and deepjit.DynamicQuantizeLSTM. The input's share of all gates is one matrix product over all steps;
// each step then adds the state's share and runs the cell.
#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/linear/compute_buffer.h"
#include "ops/linear/gemm.h"
#include "ops/nn/rnn_cell.h"
#include "ops/nn/rnn_quantized.h"
#include "ops/pointwise/quantize.h"

namespace deepjit {

namespace {

enum class Cell { RNN, GRU, LSTM };

int64_t gates_of(Cell cell) { return cell == Cell::RNN ? 1 : cell == Cell::GRU ? 3 : 4; }

struct Sizes {
  int64_t steps, batch, input, hidden, directions, gates;
  int64_t longest;  // of the sequences: no step beyond it is looked at
  bool batch_first;
  int64_t row(int64_t t, int64_t n) const { return batch_first ? n * steps + t : t * batch + n; }
};

// Everything one direction reads, and its state.
template <typename C>
struct Direction {
  const C *w, *r, *bias_w, *bias_r, *peephole;  // biases and peepholes may be nullptr
  const RnnActivation* f;                       // f, g, h
  C clip;
  bool reverse, input_forget, linear_before_reset;
  C *h, *c;    // state [batch][hidden]; c only for LSTM
  C* gates_x;  // [steps * batch][gates * hidden]: X W^T + biases
  C* gates;    // [batch][gates * hidden]: this step's
  C* extra;    // [batch][hidden], for GRU and for ended rows of 8-bit products
  // Instead of w and r, where the weights have 8 bits.
  const QuantizedWeights* quantized_w = nullptr;
  const QuantizedWeights* quantized_r = nullptr;
  DynamicProduct* product = nullptr;
};

// out = x W^T, or out += x W^T, with weights [columns, depth] in either form.
template <typename C>
void weigh(const Direction<C>& d, const C* x, int64_t rows, int64_t columns, int64_t depth, const C* w,
           const QuantizedWeights* quantized, C* out, bool add) {
  if constexpr (std::is_same_v<C, float>) {
    if (quantized != nullptr) return d.product->run(x, rows, *quantized, out, add);
  }
  gemm<C>(rows, columns, depth, {x, depth, 1}, {w, 1, depth}, out, columns, add);
}

template <typename C>
void lstm_cell(const Sizes& s, const Direction<C>& d, int64_t n) {
  const int64_t size = s.hidden;
  C* i = d.gates + n * 4 * size;
  C *o = i + size, *f = i + 2 * size, *g = i + 3 * size;
  C *c = d.c + n * size, *h = d.h + n * size;
  const C* p = d.peephole;
  for (int64_t k = 0; k < size && p != nullptr; ++k) {
    i[k] += p[k] * c[k];
    f[k] += p[2 * size + k] * c[k];
  }
  apply_activation(d.f[0], d.clip, i, size);
  if (d.input_forget) {
    for (int64_t k = 0; k < size; ++k) f[k] = C(1) - i[k];
  } else {
    apply_activation(d.f[0], d.clip, f, size);
  }
  apply_activation(d.f[1], d.clip, g, size);
  for (int64_t k = 0; k < size; ++k) {
    c[k] = f[k] * c[k] + i[k] * g[k];
    if (p != nullptr) o[k] += p[size + k] * c[k];
    h[k] = c[k];
  }
  apply_activation(d.f[0], d.clip, o, size);
  apply_activation(d.f[2], d.clip, h, size);
  for (int64_t k = 0; k < size; ++k) h[k] *= o[k];
}

// gates holds z, r and, with linear_before_reset, the state's share of the candidate apart from the input's.
template <typename C>
void gru_cell(const Sizes& s, const Direction<C>& d, int64_t n, const C* from_x) {
  const int64_t size = s.hidden;
  C* z = d.gates + n * 3 * size;
  C *r = z + size, *candidate = z + 2 * size, *h = d.h + n * size;
  for (int64_t k = 0; k < size; ++k) {
    z[k] += from_x[k];
    r[k] += from_x[size + k];
  }
  apply_activation(d.f[0], d.clip, z, size);
  apply_activation(d.f[0], d.clip, r, size);
  if (d.linear_before_reset) {
    for (int64_t k = 0; k < size; ++k) {
      const C bias = d.bias_r == nullptr ? C(0) : d.bias_r[2 * size + k];
      candidate[k] = from_x[2 * size + k] + r[k] * (candidate[k] + bias);
    }
  } else {
    C* gated = d.extra + n * size;
    for (int64_t k = 0; k < size; ++k) gated[k] = r[k] * h[k];
    gemm<C>(1, size, size, {gated, size, 1}, {d.r + 2 * size * size, 1, size}, candidate, size);
    for (int64_t k = 0; k < size; ++k) {
      candidate[k] += from_x[2 * size + k] + (d.bias_r == nullptr ? C(0) : d.bias_r[2 * size + k]);
    }
  }
  apply_activation(d.f[1], d.clip, candidate, size);
  for (int64_t k = 0; k < size; ++k) h[k] = (C(1) - z[k]) * candidate[k] + z[k] * h[k];
}

// Gate inputs of all steps: X W^T + Wb + Rb, where the candidate gate of GRU keeps its Rb for the cell.
template <typename C>
void input_gates(const Sizes& s, const Direction<C>& d, Cell cell, const C* x) {
  const int64_t width = s.gates * s.hidden, rows = (s.batch_first ? s.steps : s.longest) * s.batch;
  for (int64_t i = 0; i < rows; ++i) {
    C* out = d.gates_x + i * width;
    for (int64_t k = 0; k < width; ++k) {
      const bool apart = cell == Cell::GRU && k >= 2 * s.hidden;
      out[k] = (d.bias_w == nullptr ? C(0) : d.bias_w[k] + (apart ? C(0) : d.bias_r[k]));
    }
  }
  weigh(d, x, rows, width, s.input, d.w, d.quantized_w, d.gates_x, true);
}

// The state to multiply. A sequence that has ended must not count for the scale of an 8-bit product: its row is zeros,
// from one step later on, as ONNX Runtime has it.
template <typename C>
const C* live_state(const Sizes& s, const Direction<C>& d, int64_t step, const std::vector<int64_t>& lengths) {
  const auto ended = [step](int64_t length) { return step > length; };
  if (d.product == nullptr || std::none_of(lengths.begin(), lengths.end(), ended)) return d.h;
  std::copy_n(d.h, s.batch * s.hidden, d.extra);
  for (int64_t n = 0; n < s.batch; ++n) {
    if (ended(lengths[static_cast<size_t>(n)])) std::fill_n(d.extra + n * s.hidden, s.hidden, C(0));
  }
  return d.extra;
}

// One step for all sequences that are this long. y (may be nullptr) is called with (t, n, h).
template <typename C, typename Emit>
void run_step(const Sizes& s, const Direction<C>& d, Cell cell, int64_t step, const std::vector<int64_t>& lengths,
              Emit emit) {
  const int64_t width = s.gates * s.hidden;
  const C* state = live_state(s, d, step, lengths);
  weigh(d, state, s.batch, width, s.hidden, d.r, d.quantized_r, d.gates, false);
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t length = lengths[static_cast<size_t>(n)];
    if (step >= length) continue;
    const int64_t t = d.reverse ? length - 1 - step : step;
    const C* from_x = d.gates_x + s.row(t, n) * width;
    C* gates = d.gates + n * width;
    C* h = d.h + n * s.hidden;
    if (cell == Cell::GRU) {
      gru_cell(s, d, n, from_x);
    } else {
      for (int64_t k = 0; k < width; ++k) gates[k] += from_x[k];
      if (cell == Cell::LSTM) {
        lstm_cell(s, d, n);
      } else {
        apply_activation(d.f[0], d.clip, gates, s.hidden);
        std::copy_n(gates, s.hidden, h);
      }
    }
    emit(t, n, h);
  }
}

std::vector<int64_t> sequence_lengths(EvalContext& ctx, const Sizes& s) {
  if (!ctx.has_input(4)) return std::vector<int64_t>(static_cast<size_t>(s.batch), s.steps);
  std::vector<int64_t> lengths = ctx.ints(4);
  if (lengths.size() != static_cast<size_t>(s.batch)) {
    throw Error(Code::SHAPE_MISMATCH, "sequence_lens has " + std::to_string(lengths.size()) +
                                          " entries for a batch of " + std::to_string(s.batch));
  }
  for (int64_t length : lengths) {
    if (length < 0 || length > s.steps) {
      throw Error(Code::RUN_VALUE, "sequence_lens has the entry " + std::to_string(length) + ", the input has " +
                                       std::to_string(s.steps) + " steps");
    }
  }
  return lengths;
}

// State tensors are [directions, batch, hidden], or [batch, directions, hidden] with batch_first.
int64_t state_at(const Sizes& s, int64_t d, int64_t n) {
  return (s.batch_first ? n * s.directions + d : d * s.batch + n) * s.hidden;
}

template <typename C>
void load_state(const Sizes& s, int64_t d, const C* initial, C* state) {
  for (int64_t n = 0; n < s.batch; ++n) {
    if (initial == nullptr) {
      std::fill_n(state + n * s.hidden, s.hidden, C(0));
    } else {
      std::copy_n(initial + state_at(s, d, n), s.hidden, state + n * s.hidden);
    }
  }
}

template <typename C>
void store_state(const Sizes& s, int64_t d, const C* state, C* out) {
  for (int64_t n = 0; n < s.batch; ++n) std::copy_n(state + n * s.hidden, s.hidden, out + state_at(s, d, n));
}

Sizes sizes_of(EvalContext& ctx, Cell cell) {
  const Dims &x = ctx.dims(0), &r = ctx.dims(2);
  Sizes s;
  s.batch_first = ctx.attrs().get_int("layout", 0) == 1;
  s.steps = s.longest = x[s.batch_first ? 1 : 0];
  s.batch = x[s.batch_first ? 0 : 1];
  s.input = x[2];
  s.hidden = r[2];
  s.directions = rnn_directions(ctx.attrs());
  s.gates = gates_of(cell);
  return s;
}

Dims state_dims(const Sizes& s) {
  return s.batch_first ? Dims{s.batch, s.directions, s.hidden} : Dims{s.directions, s.batch, s.hidden};
}

const std::vector<std::string>& default_activations(Cell cell) {
  static const std::vector<std::string> rnn{"Tanh"}, gru{"Sigmoid", "Tanh"}, lstm{"Sigmoid", "Tanh", "Tanh"};
  return cell == Cell::RNN ? rnn : cell == Cell::GRU ? gru : lstm;
}

template <typename C>
Direction<C> make_direction(EvalContext& ctx, const Sizes& s) {
  Direction<C> d{};
  const int64_t width = s.gates * s.hidden;
  d.clip = ctx.attrs().get_float("clip", 0);
  d.input_forget = ctx.attrs().get_int("input_forget", 0) != 0;
  d.linear_before_reset = ctx.attrs().get_int("linear_before_reset", 0) != 0;
  d.h = scratch_array<C>(ctx, s.batch * s.hidden);
  d.c = scratch_array<C>(ctx, s.batch * s.hidden);
  d.extra = scratch_array<C>(ctx, s.batch * s.hidden);
  d.gates_x = scratch_array<C>(ctx, checked_mul(checked_mul(s.steps, s.batch), width));
  d.gates = scratch_array<C>(ctx, s.batch * width);
  return d;
}

// The 8-bit weights of deepjit.DynamicQuantizeLSTM; empty for the other ops.
struct EightBits {
  std::vector<float> w_scales, r_scales;
  std::vector<int32_t> w_zeros, r_zeros;
  std::vector<QuantizedWeights> w, r;
  std::optional<DynamicProduct> product;

  EightBits(EvalContext& ctx, const Sizes& s) {
    if (ctx.num_inputs() <= kScales || is_float(ctx.dtype(1))) return;
    w = quantized_weights(ctx, 1, kScales, w_scales, w_zeros);
    r = quantized_weights(ctx, 2, kScales + 2, r_scales, r_zeros);
    product.emplace(ctx, checked_mul(s.batch, std::max(checked_mul(s.steps, s.input), s.hidden)));
  }
  static constexpr int kScales = 8;  // the first input behind those of LSTM
};

template <typename C>
void run_recurrent(EvalContext& ctx, Cell cell) {
  Sizes s = sizes_of(ctx, cell);
  const int64_t width = s.gates * s.hidden;
  const std::vector<int64_t> lengths = sequence_lengths(ctx, s);
  s.longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  const std::vector<RnnActivation> f =
      rnn_activations(ctx.attrs(), static_cast<size_t>(s.directions), default_activations(cell));
  EightBits bits(ctx, s);
  const C* x = read_compute<C>(ctx, 0);
  const C* w = bits.product ? nullptr : read_compute<C>(ctx, 1);
  const C* r = bits.product ? nullptr : read_compute<C>(ctx, 2);
  const C *b = read_optional<C>(ctx, 3), *initial_h = read_optional<C>(ctx, 5);
  const C* initial_c = cell == Cell::LSTM ? read_optional<C>(ctx, 6) : nullptr;
  const C* peephole = cell == Cell::LSTM ? read_optional<C>(ctx, 7) : nullptr;
  const DType dtype = ctx.dtype(0);
  std::optional<ComputeOutput<C>> y, y_h, y_c;
  const Dims y_dims =
      s.batch_first ? Dims{s.batch, s.steps, s.directions, s.hidden} : Dims{s.steps, s.directions, s.batch, s.hidden};
  if (ctx.has_output(0)) y.emplace(ctx, 0, dtype, y_dims);
  if (ctx.has_output(1)) y_h.emplace(ctx, 1, dtype, state_dims(s));
  if (ctx.has_output(2)) y_c.emplace(ctx, 2, dtype, state_dims(s));
  if (y) std::fill_n(y->data(), y_dims.count(), C(0));
  Direction<C> d = make_direction<C>(ctx, s);
  for (int64_t k = 0; k < s.directions; ++k) {
    if (bits.product) {
      d.quantized_w = &bits.w[static_cast<size_t>(k)];
      d.quantized_r = &bits.r[static_cast<size_t>(k)];
      d.product = &*bits.product;
    } else {
      d.w = w + k * width * s.input;
      d.r = r + k * width * s.hidden;
    }
    d.bias_w = b == nullptr ? nullptr : b + k * 2 * width;
    d.bias_r = b == nullptr ? nullptr : d.bias_w + width;
    d.peephole = peephole == nullptr ? nullptr : peephole + k * 3 * s.hidden;
    d.f = f.data() + static_cast<size_t>(k) * default_activations(cell).size();
    d.reverse = k == 1 || ctx.attrs().get_string("direction", "forward") == "reverse";
    load_state(s, k, initial_h, d.h);
    load_state(s, k, initial_c, d.c);
    input_gates(s, d, cell, x);
    for (int64_t step = 0; step < s.longest; ++step) {
      run_step(s, d, cell, step, lengths, [&](int64_t t, int64_t n, const C* h) {
        if (!y) return;
        const int64_t row = s.batch_first ? (n * s.steps + t) * s.directions + k : (t * s.directions + k) * s.batch + n;
        std::copy_n(h, s.hidden, y->data() + row * s.hidden);
      });
    }
    if (y_h) store_state(s, k, d.h, y_h->data());
    if (y_c) store_state(s, k, d.c, y_c->data());
  }
  if (y) y->finish();
  if (y_h) y_h->finish();
  if (y_c) y_c->finish();
}

void expect_shape(const InferContext& ctx, int i, const std::vector<Dim>& expected, const std::string& what) {
  if (!ctx.has_input(i) || !ctx.shape(i).ranked()) return;
  const Shape& s = ctx.shape(i);
  bool fits = s.rank() == static_cast<int>(expected.size());
  for (int k = 0; fits && k < s.rank(); ++k) {
    const Dim& e = expected[static_cast<size_t>(k)];
    fits = !s[k].is_const() || !e.is_const() || s[k] == e;
  }
  if (!fits) {
    throw Error(Code::SHAPE_MISMATCH,
                what + " has shape " + s.to_string() + ", expected " + Shape(expected).to_string());
  }
}

void infer_recurrent(InferContext& ctx, Cell cell) {
  const Attributes& attrs = ctx.attrs();
  const int64_t layout = attrs.get_int("layout", 0);
  if (layout != 0 && layout != 1) throw Error(Code::ATTRIBUTE, "layout has the value " + std::to_string(layout));
  const bool batch_first = layout == 1;
  const Dim directions(rnn_directions(attrs));
  rnn_activations(attrs, static_cast<size_t>(directions.value()), default_activations(cell));
  const Shape x = ctx.shape(0).ranked() ? ctx.shape(0) : ctx.fresh_shape(3);
  if (x.rank() != 3) throw Error(Code::SHAPE_MISMATCH, "the input " + x.to_string() + " does not have rank 3");
  const Shape& r = ctx.shape(2);
  if (r.ranked() && r.rank() != 3) throw Error(Code::SHAPE_MISMATCH, "R " + r.to_string() + " does not have rank 3");
  const Dim hidden = r.ranked()                 ? r[2]
                     : attrs.has("hidden_size") ? Dim(attrs.require_int("hidden_size"))
                                                : ctx.fresh_dim();
  const Dim steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1];
  const Dim width = hidden * Dim(gates_of(cell));
  if (hidden.is_const() && attrs.has("hidden_size") && !(hidden == attrs.require_int("hidden_size"))) {
    throw Error(Code::ATTRIBUTE, "hidden_size does not agree with R " + r.to_string());
  }
  const std::vector<Dim> state =
      batch_first ? std::vector<Dim>{batch, directions, hidden} : std::vector<Dim>{directions, batch, hidden};
  expect_shape(ctx, 1, {directions, width, x[2]}, "W");
  expect_shape(ctx, 2, {directions, width, hidden}, "R");
  expect_shape(ctx, 3, {directions, width * Dim(2)}, "B");
  expect_shape(ctx, 4, {batch}, "sequence_lens");
  expect_shape(ctx, 5, state, "initial_h");
  if (cell == Cell::LSTM) {
    expect_shape(ctx, 6, state, "initial_c");
    expect_shape(ctx, 7, {directions, hidden * Dim(3)}, "P");
  }
  const Shape y = batch_first ? Shape({batch, steps, directions, hidden}) : Shape({steps, directions, batch, hidden});
  if (ctx.num_outputs() > 0) ctx.set_output(0, ctx.dtype(0), y);
  for (int i = 1; i < ctx.num_outputs(); ++i) ctx.set_output(i, ctx.dtype(0), Shape(state));
}

// Inputs 0 to 7 are those of LSTM, with W and R in 8 bits; then W_scale, W_zero_point, R_scale, R_zero_point. X and the
// state are quantized where they are multiplied.
void infer_dynamic_quantize_lstm(InferContext& ctx) {
  expect_8bit(ctx, "DynamicQuantizeLSTM", 1);
  expect_8bit(ctx, "DynamicQuantizeLSTM", 2);
  if (ctx.dtype(0) != DType::FLOAT32) throw Error(Code::TYPE, "DynamicQuantizeLSTM needs float32");
  if (!ctx.has_input(8) || !ctx.has_input(10)) throw Error(Code::ARITY, "DynamicQuantizeLSTM needs both scales");
  infer_recurrent(ctx, Cell::LSTM);
}

OpDef recurrent_op(const std::string& name, Cell cell, int max_inputs, int max_outputs) {
  return {.name = name,
          .min_inputs = 3,
          .max_inputs = max_inputs,
          .min_outputs = 0,
          .max_outputs = max_outputs,
          .infer = [cell](InferContext& ctx) { infer_recurrent(ctx, cell); },
          .evaluate =
              [cell, name](EvalContext& ctx) {
                visit_compute(ctx.dtype(0), name, [&]<typename C>() { run_recurrent<C>(ctx, cell); });
              }};
}

}  // namespace

void add_rnn_ops(OpRegistry& registry) {
  registry.add(recurrent_op("RNN", Cell::RNN, 6, 2));
  registry.add(recurrent_op("GRU", Cell::GRU, 6, 2));
  registry.add(recurrent_op("LSTM", Cell::LSTM, 8, 3));
  OpDef quantized = recurrent_op("deepjit.DynamicQuantizeLSTM", Cell::LSTM, 12, 3);
  quantized.infer = infer_dynamic_quantize_lstm;
  quantized.evaluate = [](EvalContext& ctx) { run_recurrent<float>(ctx, Cell::LSTM); };
  registry.add(std::move(quantized));
}

}  // namespace deepjit
