// Elementwise ops as kernel IR. The formulas are those of the reference (ops/pointwise).
#include <cmath>

#include "codegen/expand.h"

namespace deepjit {

namespace {

using Ref = IrBuilder::Ref;
using Formula = std::function<Ref(Expansion&)>;

// ---- words to write formulas with -----------------------------------------------------------------

Ref c(Expansion& e, double value) { return e.b.constant(value, e.b.type(e.in())); }
Ref add(Expansion& e, Ref x, Ref y) { return e.b.binary(Opcode::ADD, x, y); }
Ref sub(Expansion& e, Ref x, Ref y) { return e.b.binary(Opcode::SUB, x, y); }
Ref mul(Expansion& e, Ref x, Ref y) { return e.b.binary(Opcode::MUL, x, y); }
Ref div(Expansion& e, Ref x, Ref y) { return e.b.binary(Opcode::DIV, x, y); }
Ref less(Expansion& e, Ref x, Ref y) { return e.b.binary(Opcode::LT, x, y); }
Ref exp(Expansion& e, Ref x) { return e.b.unary(Opcode::EXP, x); }
Ref pick(Expansion& e, Ref condition, Ref x, Ref y) { return e.b.select(condition, x, y); }
// x limited to [low, high]; NaN stays.
Ref limit(Expansion& e, Ref x, double low, double high) {
  return e.b.binary(Opcode::MIN, e.b.binary(Opcode::MAX, x, c(e, low)), c(e, high));
}
Ref positive(Expansion& e, Ref x) { return pick(e, less(e, x, c(e, 0)), c(e, 0), x); }
Ref negative(Expansion& e, Ref x) { return pick(e, less(e, c(e, 0), x), c(e, 0), x); }

Ref elu(Expansion& e, Ref x, double alpha, double scale) {
  const Ref below = mul(e, c(e, alpha), sub(e, exp(e, mul(e, negative(e, x), c(e, scale))), c(e, 1)));
  return add(e, positive(e, x), below);
}

Ref softplus(Expansion& e, Ref x) {
  const Ref u = exp(e, e.b.unary(Opcode::NEG, e.b.unary(Opcode::ABS, x)));
  return add(e, positive(e, x), e.b.unary(Opcode::LOG, add(e, c(e, 1), u)));
}

Ref mish(Expansion& e) {
  const Ref x = e.in();
  const Ref u = exp(e, pick(e, less(e, c(e, 20), x), c(e, 20), x));
  const Ref y = mul(e, u, add(e, u, c(e, 2)));
  return mul(e, x, div(e, y, add(e, y, c(e, 2))));
}

Ref gelu(Expansion& e) {
  const Ref x = e.in();
  Ref inner;
  if (e.op.attrs->get_string("approximate", "none") == "tanh") {
    const Ref cube = mul(e, mul(e, mul(e, c(e, 0.044715), x), x), x);
    inner = e.b.unary(Opcode::TANH, mul(e, c(e, 0.79788456080286535588), add(e, x, cube)));
  } else {
    inner = e.b.unary(Opcode::ERF, mul(e, x, c(e, 0.70710678118654752440)));
  }
  return mul(e, mul(e, c(e, 0.5), x), add(e, c(e, 1), inner));
}

Ref clip(Expansion& e) {
  Ref x = e.in();
  if (e.has(1)) x = e.b.binary(Opcode::MAX, x, e.in(1));
  if (e.has(2)) x = e.b.binary(Opcode::MIN, x, e.in(2));
  return x;
}

Ref variadic(Expansion& e, Opcode op) {
  Ref x = e.in();
  for (size_t i = 1; i < e.inputs.size(); ++i) x = e.b.binary(op, x, e.in(i));
  return x;
}

Ref sign(Expansion& e) {
  const Ref x = e.in();
  const Ref up = pick(e, less(e, c(e, 0), x), c(e, 1), x);
  return pick(e, less(e, x, c(e, 0)), c(e, -1), up);
}

// Powers whose exponent is a constant that a few multiplications or a root give.
std::optional<double> plain_exponent(const OpView& op) {
  if (op.constants.size() < 2 || op.constants[1] == nullptr || op.constants[1]->count() != 1) return std::nullopt;
  if (op.constants[1]->dtype() == DType::BOOL || compute_type(op.constants[1]->dtype()) == DType::UNDEFINED) {
    return std::nullopt;
  }
  const double p = op.constants[1]->to_f64()[0];
  for (double known : {1.0, 2.0, 3.0, 4.0, -1.0, -2.0}) {
    if (p == known) return p;
  }
  return std::nullopt;  // a root differs from pow for -0 and -inf
}

Ref power(Expansion& e) {
  const Ref x = e.in();
  const double p = *plain_exponent(e.op);
  const Ref square = mul(e, x, x);
  if (p == 1) return x;
  if (p == 2) return square;
  if (p == 3) return mul(e, square, x);
  if (p == 4) return mul(e, square, square);
  return div(e, c(e, 1), p == -1 ? x : square);
}

Ref is_inf(Expansion& e) {
  const Ref x = e.in();
  const bool up = e.op.attrs->get_int("detect_positive", 1) != 0;
  const bool down = e.op.attrs->get_int("detect_negative", 1) != 0;
  const Ref no = e.b.constant(0, DType::BOOL);
  const Ref at_top = up ? e.b.binary(Opcode::EQ, x, c(e, INFINITY)) : no;
  const Ref at_bottom = down ? e.b.binary(Opcode::EQ, x, c(e, -INFINITY)) : no;
  return e.b.binary(Opcode::OR, at_top, at_bottom);
}

// A Cast: through the compute types, rounded or wrapped to the memory type by the store that follows.
Ref cast(Expansion& e) {
  const DType to = e.op.outputs[0].dtype;
  const Ref x = e.b.cast(e.in(), compute_type(to));
  const bool narrow = to == DType::FLOAT16 || to == DType::BFLOAT16;
  return narrow && e.op.inputs[0].dtype != to ? e.b.round_to(x, to) : x;
}

bool is_narrow_integer(DType t) {
  return t == DType::INT8 || t == DType::UINT8 || t == DType::INT16 || t == DType::UINT16;
}

Refusal refuse_cast(const OpView& op) {
  const DType from = op.inputs[0].dtype;
  const DType to = op.outputs[0].dtype;
  if (is_narrow_integer(to) && from != to) {
    return {Why::TYPE_NOT_GENERATED, "a Cast to " + std::string(dtype_name(to)) + " wraps", "cast to int32 instead"};
  }
  return {};
}

// Arithmetic on narrow integers wraps at every step, which the 32-bit compute type does not.
Refusal need_number(const OpView& op) {
  const DType t = op.inputs[0].dtype;
  if (t == DType::INT32 || t == DType::INT64) return {};
  return need_float(op);
}

Refusal need_comparable(const OpView& op) {
  if (op.inputs[0].dtype == DType::BOOL && op.op != "Equal") return need_float(op);
  return {};
}

Refusal refuse_pow(const OpView& op) {
  if (Refusal why = need_float(op); !why.empty()) return why;
  if (plain_exponent(op)) return {};
  return {Why::EXPONENT, "Pow is generated only for the constant exponents -2, -1, 1, 2, 3 and 4"};
}

}  // namespace

void add_pointwise_rules(RuleTable& table) {
  auto rule = [&](const char* op, Refusal (*refuse)(const OpView&), Formula formula) {
    table[op] = {std::move(formula), nullptr, false, nullptr, refuse};
  };
  auto unary = [&](const char* op, Opcode code, Refusal (*refuse)(const OpView&) = need_float) {
    rule(op, refuse, [code](Expansion& e) { return e.b.unary(code, e.in()); });
  };
  auto binary = [&](const char* op, Opcode code, Refusal (*refuse)(const OpView&) = need_number) {
    rule(op, refuse, [code](Expansion& e) { return e.b.binary(code, e.in(0), e.in(1)); });
  };
  unary("Neg", Opcode::NEG, need_number);
  unary("Abs", Opcode::ABS);
  unary("Sqrt", Opcode::SQRT);
  unary("Exp", Opcode::EXP);
  unary("Log", Opcode::LOG);
  unary("Erf", Opcode::ERF);
  unary("Tanh", Opcode::TANH);
  unary("Sigmoid", Opcode::SIGMOID);
  unary("Floor", Opcode::FLOOR);
  unary("Ceil", Opcode::CEIL);
  unary("Round", Opcode::ROUND);
  unary("IsNaN", Opcode::IS_NAN);
  unary("Reciprocal", Opcode::RECIPROCAL);
  unary("Not", Opcode::NOT, nullptr);
  binary("Add", Opcode::ADD);
  binary("Sub", Opcode::SUB);
  binary("Mul", Opcode::MUL);
  binary("Div", Opcode::DIV, need_float);
  binary("Equal", Opcode::EQ, need_comparable);
  binary("Less", Opcode::LT, need_comparable);
  binary("LessOrEqual", Opcode::LE, need_comparable);
  rule("Greater", need_comparable, [](Expansion& e) { return less(e, e.in(1), e.in(0)); });
  rule("GreaterOrEqual", need_comparable, [](Expansion& e) { return e.b.binary(Opcode::LE, e.in(1), e.in(0)); });
  binary("And", Opcode::AND, nullptr);
  binary("Or", Opcode::OR, nullptr);
  binary("Xor", Opcode::XOR, nullptr);
  rule("Where", nullptr, [](Expansion& e) { return e.b.select(e.in(0), e.in(1), e.in(2)); });
  rule("Identity", nullptr, [](Expansion& e) { return e.in(); });
  rule("Cast", refuse_cast, cast);
  rule("Pow", refuse_pow, power);
  rule("IsInf", need_float, is_inf);
  rule("Sign", need_float, sign);
  rule("Min", need_number, [](Expansion& e) { return variadic(e, Opcode::MIN); });
  rule("Max", need_number, [](Expansion& e) { return variadic(e, Opcode::MAX); });
  rule("Sum", need_float, [](Expansion& e) { return variadic(e, Opcode::ADD); });
  rule("Mean", need_float,
       [](Expansion& e) { return div(e, variadic(e, Opcode::ADD), c(e, static_cast<double>(e.inputs.size()))); });
  rule("Clip", need_number, clip);

  rule("Relu", need_number, [](Expansion& e) { return positive(e, e.in()); });
  rule("LeakyRelu", need_float, [](Expansion& e) {
    const Ref slope = pick(e, less(e, e.in(), c(e, 0)), c(e, e.attr("alpha", 0.01f)), c(e, 1));
    return mul(e, e.in(), slope);
  });
  rule("PRelu", need_float,
       [](Expansion& e) { return pick(e, less(e, e.in(), c(e, 0)), mul(e, e.in(), e.in(1)), e.in()); });
  rule("Elu", need_float, [](Expansion& e) { return elu(e, e.in(), e.attr("alpha", 1), 1); });
  rule("Celu", need_float, [](Expansion& e) {
    const double alpha = e.attr("alpha", 1);
    return elu(e, e.in(), alpha, 1 / alpha);
  });
  rule("Selu", need_float, [](Expansion& e) {
    const double gamma = e.attr("gamma", 1.05070102214813232421875f);
    return mul(e, c(e, gamma), elu(e, e.in(), e.attr("alpha", 1.67326319217681884765625f), 1));
  });
  rule("ThresholdedRelu", need_float, [](Expansion& e) {
    const Ref x = e.in();
    const Ref low = pick(e, e.b.unary(Opcode::IS_NAN, x), x, c(e, 0));
    return pick(e, less(e, c(e, e.attr("alpha", 1)), x), x, low);
  });
  rule("HardSigmoid", need_float, [](Expansion& e) {
    return limit(e, add(e, mul(e, c(e, e.attr("alpha", 0.2f)), e.in()), c(e, e.attr("beta", 0.5f))), 0, 1);
  });
  rule("HardSwish", need_float,
       [](Expansion& e) { return mul(e, e.in(), limit(e, add(e, div(e, e.in(), c(e, 6)), c(e, 0.5)), 0, 1)); });
  rule("Swish", need_float, [](Expansion& e) {
    const float alpha = e.attr("alpha", 1);
    return mul(e, e.in(), e.b.unary(Opcode::SIGMOID, alpha == 1 ? e.in() : mul(e, c(e, alpha), e.in())));
  });
  rule("Softplus", need_float, [](Expansion& e) { return softplus(e, e.in()); });
  rule("Softsign", need_float,
       [](Expansion& e) { return div(e, e.in(), add(e, c(e, 1), e.b.unary(Opcode::ABS, e.in()))); });
  rule("Mish", need_float, mish);
  rule("Gelu", need_float, gelu);
}

}  // namespace deepjit
