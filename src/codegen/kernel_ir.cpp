#include "codegen/kernel_ir.h"

#include <fmt/format.h>

#include <algorithm>

namespace deepjit {

bool is_reduction(Opcode op) { return op >= Opcode::SUM; }

bool is_transcendental(Opcode op) { return op >= Opcode::EXP && op <= Opcode::SIGMOID; }

int arity(Opcode op) {
  if (op <= Opcode::LOAD) return 0;
  if (op < Opcode::ADD || is_reduction(op)) return 1;
  return op == Opcode::SELECT ? 3 : 2;
}

std::string_view opcode_name(Opcode op) {
  static constexpr std::string_view kNames[] = {
      "const",      "row_size", "load", "cast",    "round_to", "neg",  "abs",     "sqrt",    "exp",
      "log",        "erf",      "tanh", "sigmoid", "floor",    "ceil", "round",   "not",     "is_nan",
      "reciprocal", "add",      "sub",  "mul",     "div",      "min",  "max",     "eq",      "lt",
      "le",         "and",      "or",   "xor",     "select",   "sum",  "product", "minimum", "maximum"};
  return kNames[static_cast<size_t>(op)];
}

std::vector<bool> KernelIr::per_element() const {
  std::vector<bool> out(insts.size(), false);
  for (size_t i = 0; i < insts.size(); ++i) {
    const Inst& inst = insts[i];
    if (is_reduction(inst.op)) continue;
    if (inst.op == Opcode::LOAD) {
      out[i] = accesses[static_cast<size_t>(inst.access)].moves_along_row();
    }
    for (int32_t arg : inst.args) {
      if (arg >= 0 && out[static_cast<size_t>(arg)]) out[i] = true;
    }
  }
  return out;
}

std::vector<int> KernelIr::stages() const {
  std::vector<int> out(insts.size(), 0);
  for (size_t i = 0; i < insts.size(); ++i) {
    for (int32_t arg : insts[i].args) {
      if (arg < 0) continue;
      const int after = is_reduction(insts[static_cast<size_t>(arg)].op) ? 1 : 0;
      out[i] = std::max(out[i], out[static_cast<size_t>(arg)] + after);
    }
  }
  return out;
}

namespace {

std::string text_of(const Quantity& q) {
  std::string text = q.dims.empty() || q.factor != 1 ? std::to_string(q.factor) : "";
  if (q.factor == 0) return text;
  for (const Quantity::Factor& f : q.dims) text += fmt::format("{}d{}.{}", text.empty() ? "" : "*", f.operand, f.axis);
  return text;
}

}  // namespace

std::string KernelIr::to_string() const {
  std::string text = fmt::format("{} inputs, axes", inputs);
  for (const Quantity& e : extents) text += " " + text_of(e);
  text += reduces ? " (row reduced)\n" : "\n";
  const auto access_text = [&](int32_t index) {
    const Access& a = accesses[static_cast<size_t>(index)];
    std::string out = fmt::format("{}{}:{}[", a.operand < inputs ? "in" : "out",
                                  a.operand < inputs ? a.operand : a.operand - inputs, dtype_name(a.dtype));
    for (size_t i = 0; i < a.strides.size(); ++i) out += (i ? ", " : "") + text_of(a.strides[i]);
    return out + "]";
  };
  for (size_t i = 0; i < insts.size(); ++i) {
    const Inst& inst = insts[i];
    text += fmt::format("%{} = {} {}", i, opcode_name(inst.op), dtype_name(inst.type));
    if (inst.op == Opcode::CONST) text += fmt::format(" {}", inst.number);
    if (inst.op == Opcode::LOAD) text += " " + access_text(inst.access);
    if (inst.op == Opcode::ROUND_TO) text += fmt::format(" {}", dtype_name(static_cast<DType>(inst.access)));
    for (int32_t arg : inst.args) {
      if (arg >= 0) text += fmt::format(" %{}", arg);
    }
    text += "\n";
  }
  for (const Store& s : stores) text += fmt::format("store %{} {}\n", s.value, access_text(s.access));
  return text;
}

}  // namespace deepjit
