// Parsing and applying of epilogues. Adjacent dims that every operand walks alike are merged first, so the
// common cases (same shape, scalar, channel, last dim) run as long contiguous loops.
#include "ops/linear/epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/visit.h"

namespace deepjit {

namespace {

enum class Kind {
  RELU,
  SIGMOID,
  TANH,
  GELU,
  GELU_TANH,
  EXP,
  ABS,
  SQRT,
  CLIP,
  LEAKY_RELU,
  ELU,
  HARD_SIGMOID,
  HARD_SWISH,
  SWISH,
  SOFTPLUS,
  LINEAR,
  ADD,
  MUL,
  SUB,
  DIV
};

struct KindInfo {
  std::string_view name;
  Kind kind;
  int numbers;
  bool operand;
};

constexpr KindInfo kKinds[] = {
    {"Relu", Kind::RELU, 0, false},
    {"Sigmoid", Kind::SIGMOID, 0, false},
    {"Tanh", Kind::TANH, 0, false},
    {"Gelu", Kind::GELU, 0, false},
    {"GeluTanh", Kind::GELU_TANH, 0, false},
    {"Exp", Kind::EXP, 0, false},
    {"Abs", Kind::ABS, 0, false},
    {"Sqrt", Kind::SQRT, 0, false},
    {"Clip", Kind::CLIP, 2, false},
    {"LeakyRelu", Kind::LEAKY_RELU, 1, false},
    {"Elu", Kind::ELU, 1, false},
    {"HardSigmoid", Kind::HARD_SIGMOID, 2, false},
    {"HardSwish", Kind::HARD_SWISH, 0, false},
    {"Swish", Kind::SWISH, 1, false},
    {"Softplus", Kind::SOFTPLUS, 0, false},
    {"Linear", Kind::LINEAR, 2, false},
    {"Add", Kind::ADD, 0, true},
    {"Mul", Kind::MUL, 0, true},
    {"Sub", Kind::SUB, 0, true},
    {"Div", Kind::DIV, 0, true},
};

[[noreturn]] void bad_entry(std::string_view text) {
  throw Error(Code::ATTRIBUTE, "epilogue entry \"" + std::string(text) + "\" is not known");
}

const KindInfo& kind_of(std::string_view name, std::string_view text) {
  for (const KindInfo& info : kKinds) {
    if (info.name == name) return info;
  }
  bad_entry(text);
}

// Reads one number that ends at `end`, moving `p` behind it.
float parse_number(const char*& p, char end, std::string_view text) {
  char* stop = nullptr;
  const float value = std::strtof(p, &stop);
  if (stop == p || *stop != end) bad_entry(text);
  p = stop + 1;
  return value;
}

EpilogueOp parse_entry(const std::string& text) {
  const size_t open = text.find('(');
  EpilogueOp op;
  op.name = text.substr(0, open);
  const KindInfo& info = kind_of(op.name, text);
  const bool has_args = info.operand || info.numbers > 0;
  if (has_args != (open != std::string::npos)) bad_entry(text);
  if (!has_args) return op;
  const char* p = text.c_str() + open + 1;
  if (info.operand) {
    if (*p != '$' || p[1] < '0' || p[1] > '9') bad_entry(text);
    char* stop = nullptr;
    const long k = std::strtol(p + 1, &stop, 10);
    if (*stop != ')' || k > 1 << 20) bad_entry(text);
    op.operand = static_cast<int>(k);
    p = stop + 1;
  } else {
    op.alpha = parse_number(p, info.numbers == 1 ? ')' : ',', text);
    if (info.numbers == 2) op.beta = parse_number(p, ')', text);
  }
  if (*p != '\0') bad_entry(text);
  return op;
}

template <typename C, typename F>
void each(C* x, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) x[i] = f(x[i]);
}

template <typename C>
C clip(C x, C lo, C hi) {
  x = x < lo ? lo : x;  // a NaN passes both comparisons
  return x > hi ? hi : x;
}

template <typename C>
C sigmoid(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

template <typename C>
void apply_unary(Kind kind, C a, C b, C* x, int64_t n) {
  switch (kind) {
    case Kind::RELU:
      return each(x, n, [](C v) { return v < C(0) ? C(0) : v; });
    case Kind::SIGMOID:
      return each(x, n, [](C v) { return sigmoid(v); });
    case Kind::TANH:
      return each(x, n, [](C v) { return std::tanh(v); });
    case Kind::GELU:
      return each(x, n, [](C v) { return C(0.5) * v * (C(1) + std::erf(v * C(0.70710678118654752440))); });
    case Kind::GELU_TANH:
      return each(x, n, [](C v) {
        return C(0.5) * v * (C(1) + std::tanh(C(0.79788456080286535588) * (v + C(0.044715) * v * v * v)));
      });
    case Kind::EXP:
      return each(x, n, [](C v) { return std::exp(v); });
    case Kind::ABS:
      return each(x, n, [](C v) { return std::fabs(v); });
    case Kind::SQRT:
      return each(x, n, [](C v) { return std::sqrt(v); });
    case Kind::CLIP:
      return each(x, n, [=](C v) { return clip(v, a, b); });
    case Kind::LEAKY_RELU:
      return each(x, n, [=](C v) { return v < C(0) ? a * v : v; });
    case Kind::ELU:
      return each(x, n, [=](C v) { return v < C(0) ? a * std::expm1(v) : v; });
    case Kind::HARD_SIGMOID:
      return each(x, n, [=](C v) { return clip(a * v + b, C(0), C(1)); });
    case Kind::HARD_SWISH:
      return each(x, n, [](C v) { return v * clip(v * C(1.0 / 6.0) + C(0.5), C(0), C(1)); });
    case Kind::SWISH:
      return each(x, n, [=](C v) { return v * sigmoid(a * v); });
    case Kind::SOFTPLUS:
      return each(x, n, [](C v) { return std::log1p(std::exp(-std::fabs(v))) + (v > C(0) ? v : C(0)); });
    case Kind::LINEAR:
      return each(x, n, [=](C v) { return a * v + b; });
    default:
      check_internal(false, "epilogue op without its operand");
  }
}

// step is 1 for an operand as long as x, 0 for one value.
template <typename C, typename F>
void each_pair(C* x, const C* y, int64_t step, int64_t n, F f) {
  if (step == 0) {
    const C value = *y;
    for (int64_t i = 0; i < n; ++i) x[i] = f(x[i], value);
  } else {
    for (int64_t i = 0; i < n; ++i) x[i] = f(x[i], y[i]);
  }
}

template <typename C>
void apply_binary(Kind kind, C* x, const C* y, int64_t step, int64_t n) {
  switch (kind) {
    case Kind::ADD:
      return each_pair(x, y, step, n, [](C a, C b) { return a + b; });
    case Kind::MUL:
      return each_pair(x, y, step, n, [](C a, C b) { return a * b; });
    case Kind::SUB:
      return each_pair(x, y, step, n, [](C a, C b) { return a - b; });
    default:
      return each_pair(x, y, step, n, [](C a, C b) { return a / b; });
  }
}

// One step made ready to run: its operand's stride for each of the result's dims.
struct Step {
  Kind kind;
  float alpha, beta;
  TensorView operand;
  Dims strides;
};

Dims operand_strides(const Dims& operand, const Dims& result, const std::string& entry) {
  Dims strides = Dims::filled(result.rank(), 0);
  const Dims own = operand.strides();
  const int shift = result.rank() - operand.rank();
  for (int i = 0; i < operand.rank(); ++i) {
    if (operand[i] == 1) continue;
    if (shift + i < 0 || operand[i] != result[shift + i]) {
      throw Error(Code::SHAPE_MISMATCH, "epilogue " + entry + ": operand " + operand.to_string() +
                                            " does not broadcast to the result " + result.to_string());
    }
    strides[shift + i] = own[i];
  }
  return strides;
}

// Drops dims of size 1 and merges neighbours that all steps walk as one.
void merge_dims(Dims& dims, std::vector<Step>& steps) {
  for (int i = dims.rank() - 1; i >= 0; --i) {
    bool drop = dims[i] == 1;
    bool merge = i + 1 < dims.rank();
    for (const Step& s : steps) {
      if (merge && s.operand.data != nullptr) merge = s.strides[i] == s.strides[i + 1] * dims[i + 1];
    }
    if (!drop && !merge) continue;
    if (!drop) dims[i + 1] *= dims[i];
    dims.erase(i);
    for (Step& s : steps) {
      if (s.operand.data != nullptr) s.strides.erase(i);
    }
  }
}

template <typename C>
const C* load(const TensorView& view, int64_t offset, int64_t n, C* buffer) {
  const C* out = buffer;
  visit_float(view.dtype, "epilogue", [&]<typename T>() {
    const T* p = view.as<T>() + offset;
    if constexpr (std::is_same_v<T, C>) {
      out = p;
    } else {
      for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<C>(static_cast<compute_t<T>>(p[i]));
    }
  });
  return out;
}

constexpr int64_t kChunk = 512;

// Runs all steps over x[0..n), the elements of the result from the (merged) row's element `first` on.
template <typename C>
void apply_steps(const std::vector<Step>& steps, const std::vector<int64_t>& offsets, int64_t first, C* x, int64_t n) {
  C buffer[kChunk];
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    if (s.operand.data == nullptr) {
      apply_unary(s.kind, static_cast<C>(s.alpha), static_cast<C>(s.beta), x, n);
      continue;
    }
    const int64_t step = s.strides.empty() ? 0 : s.strides.back();
    const C* y = load<C>(s.operand, offsets[i] + first * step, step == 0 ? 1 : n, buffer);
    apply_binary(s.kind, x, y, step, n);
  }
}

template <typename T>
void apply_to(const std::vector<Step>& steps, const Dims& dims, T* result) {
  using C = compute_t<T>;
  const int64_t count = dims.count();
  if (count == 0) return;
  const int64_t inner = dims.empty() ? 1 : dims.back();
  Dims outer = dims;
  if (!outer.empty()) outer.erase(outer.rank() - 1);
  Dims index = Dims::filled(outer.rank(), 0);
  std::vector<int64_t> offsets(steps.size());
  C buffer[kChunk];
  for (int64_t row = 0; row < count / inner; ++row) {
    for (size_t i = 0; i < steps.size(); ++i) {
      offsets[i] = 0;
      if (steps[i].operand.data == nullptr) continue;
      for (int d = 0; d < outer.rank(); ++d) offsets[i] += index[d] * steps[i].strides[d];
    }
    for (int64_t first = 0; first < inner; first += kChunk) {
      const int64_t n = std::min(kChunk, inner - first);
      T* x = result + row * inner + first;
      if constexpr (std::is_same_v<T, C>) {
        apply_steps<C>(steps, offsets, first, x, n);
      } else {
        for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<C>(x[i]);
        apply_steps<C>(steps, offsets, first, buffer, n);
        for (int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(buffer[i]);
      }
    }
    for (int d = outer.rank() - 1; d >= 0 && ++index[d] == outer[d]; --d) index[d] = 0;
  }
}

}  // namespace

std::vector<EpilogueOp> parse_epilogue(const std::vector<std::string>& entries) {
  std::vector<EpilogueOp> ops;
  for (const std::string& text : entries) ops.push_back(parse_entry(text));
  return ops;
}

std::string to_string(const EpilogueOp& op) {
  const KindInfo& info = kind_of(op.name, op.name);
  if (info.operand) return fmt::format("{}(${})", op.name, op.operand);
  if (info.numbers == 1) return fmt::format("{}({})", op.name, op.alpha);
  if (info.numbers == 2) return fmt::format("{}({},{})", op.name, op.alpha, op.beta);
  return op.name;
}

std::vector<EpilogueOp> epilogue_of(const Attributes& attrs) { return parse_epilogue(attrs.get_strings("epilogue")); }

void check_epilogue(const InferContext& ctx, const Shape& result) {
  for (const EpilogueOp& op : epilogue_of(ctx.attrs())) {
    if (op.operand < 0) continue;
    if (!ctx.has_input(op.operand)) {
      throw Error(Code::ARITY, "epilogue " + to_string(op) + " refers to an input that is not there");
    }
    const Shape& operand = ctx.shape(op.operand);
    if (!operand.ranked() || !result.ranked()) continue;
    const int shift = result.rank() - operand.rank();
    for (int i = 0; i < operand.rank(); ++i) {
      const bool one = operand[i] == 1;
      const bool clash = shift + i < 0 ||
                         (operand[i].is_const() && result[shift + i].is_const() && !(operand[i] == result[shift + i]));
      if (!one && clash) {
        throw Error(Code::SHAPE_MISMATCH, "epilogue " + to_string(op) + ": operand " + operand.to_string() +
                                              " does not broadcast to the result " + result.to_string());
      }
    }
  }
}

void apply_epilogue(std::span<const EpilogueOp> ops, std::span<const TensorView> inputs, TensorView result) {
  if (ops.empty()) return;
  std::vector<Step> steps;
  for (const EpilogueOp& op : ops) {
    Step step{kind_of(op.name, op.name).kind, op.alpha, op.beta, {}, {}};
    if (op.operand >= 0) {
      if (static_cast<size_t>(op.operand) >= inputs.size() || inputs[static_cast<size_t>(op.operand)].data == nullptr) {
        if (result.count() == 0) return;
        throw Error(Code::ARITY, "epilogue " + to_string(op) + " refers to an input that is not there");
      }
      step.operand = inputs[static_cast<size_t>(op.operand)];
      step.strides = operand_strides(step.operand.dims, result.dims, to_string(op));
    }
    steps.push_back(step);
  }
  Dims dims = result.dims;
  merge_dims(dims, steps);
  visit_float(result.dtype, "epilogue", [&]<typename T>() { apply_to<T>(steps, dims, result.as<T>()); });
}

void apply_epilogue(const EvalContext& ctx, TensorView result) {
  const std::vector<EpilogueOp> ops = epilogue_of(ctx.attrs());
  if (ops.empty()) return;
  std::vector<TensorView> inputs(static_cast<size_t>(ctx.num_inputs()));
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (ctx.has_input(i)) inputs[static_cast<size_t>(i)] = ctx.input(i);
  }
  apply_epilogue(ops, inputs, result);
}

}  // namespace deepjit
