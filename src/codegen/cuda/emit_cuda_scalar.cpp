#include "codegen/cuda/emit_cuda_scalar.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"

namespace deepjit::cuda_text {

namespace {

std::string suffix(DType type) {
  switch (type) {
    case DType::FLOAT32:
      return "f32";
    case DType::FLOAT64:
      return "f64";
    case DType::INT32:
      return "i32";
    default:
      return "i64";
  }
}

// The name that the C library has for a function of floats: expf, of doubles: exp.
std::string math(const char* name, DType type, const std::string& x) {
  return std::string(name) + (type == DType::FLOAT32 ? "f(" : "(") + x + ")";
}

std::string infix(const std::vector<std::string>& a, const char* sign) { return a[0] + " " + sign + " " + a[1]; }

std::string float_literal(double number, DType type) {
  const bool single = type == DType::FLOAT32;
  if (!std::isfinite(number)) {
    const char* bits = std::isnan(number) ? (single ? "0x7fc00000" : "0x7ff8000000000000LL")
                       : number > 0       ? (single ? "0x7f800000" : "0x7ff0000000000000LL")
                                          : (single ? "(int)0xff800000" : "(long long)0xfff0000000000000LL");
    return std::string(single ? "__int_as_float(" : "__longlong_as_double(") + bits + ")";
  }
  std::string text = single ? fmt::format("{:.9g}", number) : fmt::format("{:.17g}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (single) text += "f";
  return text[0] == '-' ? "(" + text + ")" : text;
}

std::string integer_literal(int64_t number, DType type) {
  const bool narrow = type == DType::INT32;
  const int64_t least = narrow ? INT32_MIN : INT64_MIN;
  const int64_t most = narrow ? INT32_MAX : INT64_MAX;
  if (number <= least) return narrow ? "(-2147483647 - 1)" : "(-9223372036854775807LL - 1)";
  const std::string text = std::to_string(std::min(number, most)) + (narrow ? "" : "LL");
  return number < 0 ? "(" + text + ")" : text;
}

// To bool tests for nonzero, float to integer truncates, saturates and makes 0 of NaN.
std::string cast(CudaWriter& out, const std::string& x, DType from, DType to) {
  if (to == DType::BOOL) return x + " != " + literal(0, from);
  if (is_float(from) && !is_float(to)) return out.call("to_" + suffix(to) + "_from_" + suffix(from), x);
  return "(" + cuda_register_type(to) + ")" + x;
}

std::string arithmetic(CudaWriter& out, const char* name, const char* sign, DType type,
                       const std::vector<std::string>& a) {
  if (is_float(type)) return infix(a, sign);
  // Signed integers wrap.
  return out.call(std::string(name) + "_" + suffix(type), a[0] + ", " + a[1]);
}

std::string sign_change(CudaWriter& out, const Inst& inst, const std::string& x) {
  if (inst.op == Opcode::ABS && is_float(inst.type)) return math("fabs", inst.type, x);
  if (inst.op == Opcode::ABS) return out.call("magnitude_" + suffix(inst.type), x);
  return is_float(inst.type) ? "-" + x : out.call("negative_" + suffix(inst.type), x);
}

bool is_float_function(Opcode op) { return op >= Opcode::SQRT && op <= Opcode::RECIPROCAL; }

std::string float_function(CudaWriter& out, const Inst& inst, const std::string& x) {
  switch (inst.op) {
    case Opcode::SQRT:
      return math("sqrt", inst.type, x);
    case Opcode::EXP:
      return math("exp", inst.type, x);
    case Opcode::LOG:
      return math("log", inst.type, x);
    case Opcode::ERF:
      return math("erf", inst.type, x);
    case Opcode::TANH:
      return math("tanh", inst.type, x);
    case Opcode::SIGMOID:
      return out.call("sigmoid_" + suffix(inst.type), x);
    case Opcode::FLOOR:
      return math("floor", inst.type, x);
    case Opcode::CEIL:
      return math("ceil", inst.type, x);
    case Opcode::ROUND:
      return math("rint", inst.type, x);  // halves to even
    default:
      return literal(1, inst.type) + " / " + x;  // RECIPROCAL
  }
}

}  // namespace

std::string literal(double number, DType type) {
  if (type == DType::BOOL) return number != 0 ? "true" : "false";
  if (is_float(type)) return float_literal(number, type);
  if (std::isnan(number)) number = 0;
  if (number >= 9223372036854775807.0) return integer_literal(INT64_MAX, type);
  return integer_literal(number <= -9223372036854775808.0 ? INT64_MIN : static_cast<int64_t>(number), type);
}

std::string operation(CudaWriter& out, const Inst& inst, DType from, const std::vector<std::string>& a) {
  switch (inst.op) {
    case Opcode::CAST:
      return cast(out, a[0], from, inst.type);
    case Opcode::ROUND_TO: {
      const auto through = static_cast<DType>(inst.access);
      if (inst.type == DType::FLOAT32) return from_memory(out, to_memory(out, a[0], through), through);
      if (through == DType::FLOAT32) return "(double)(float)" + a[0];
      break;
    }
    case Opcode::NEG:
    case Opcode::ABS:
      return sign_change(out, inst, a[0]);
    case Opcode::NOT:
      return "!" + a[0];
    case Opcode::IS_NAN:
      return a[0] + " != " + a[0];
    case Opcode::ADD:
      return arithmetic(out, "sum", "+", inst.type, a);
    case Opcode::SUB:
      return arithmetic(out, "difference", "-", inst.type, a);
    case Opcode::MUL:
      return arithmetic(out, "product", "*", inst.type, a);
    case Opcode::DIV:
      return infix(a, "/");
    case Opcode::MIN:
    case Opcode::MAX:
      return out.call((inst.op == Opcode::MIN ? "lower_" : "upper_") + suffix(inst.type), a[0] + ", " + a[1]);
    case Opcode::EQ:
      return infix(a, "==");
    case Opcode::LT:
      return infix(a, "<");
    case Opcode::LE:
      return infix(a, "<=");
    case Opcode::AND:
      return infix(a, "&");
    case Opcode::OR:
      return infix(a, "|");
    case Opcode::XOR:
      return infix(a, "^");
    case Opcode::SELECT:
      return a[0] + " ? " + a[1] + " : " + a[2];
    default:
      if (is_float_function(inst.op)) return float_function(out, inst, a[0]);
      break;
  }
  throw Error(Code::INTERNAL, "codegen: no CUDA for " + std::string(opcode_name(inst.op)));
}

std::string from_memory(CudaWriter& out, const std::string& x, DType dtype) {
  switch (dtype) {
    case DType::FLOAT16:
      return out.call("float_of_half", x);
    case DType::BFLOAT16:
      return out.call("float_of_bfloat16", x);
    case DType::BOOL:
      return x + " != 0";
    default:
      return x;
  }
}

std::string to_memory(CudaWriter& out, const std::string& x, DType dtype) {
  switch (dtype) {
    case DType::FLOAT16:
      return out.call("half_of_float", x);
    case DType::BFLOAT16:
      return out.call("bfloat16_of_float", x);
    case DType::BOOL:
    case DType::INT8:
    case DType::UINT8:
    case DType::INT16:
    case DType::UINT16:
      return "(" + cuda_memory_type(dtype) + ")" + x;
    default:
      return x;
  }
}

std::string combine(CudaWriter& out, Opcode reduction, DType type, const std::string& a, const std::string& b) {
  const Opcode op = reduction == Opcode::SUM       ? Opcode::ADD
                    : reduction == Opcode::PRODUCT ? Opcode::MUL
                    : reduction == Opcode::MINIMUM ? Opcode::MIN
                                                   : Opcode::MAX;
  return operation(out, {op, type}, type, {a, b});
}

std::string identity(Opcode reduction, DType type) {
  if (reduction == Opcode::SUM || reduction == Opcode::PRODUCT) return literal(reduction == Opcode::SUM ? 0 : 1, type);
  return literal(reduction == Opcode::MINIMUM ? INFINITY : -INFINITY, type);
}

}  // namespace deepjit::cuda_text
