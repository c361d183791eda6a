#include "codegen/contract/epilogue.h"

#include <cmath>

#include "base/error.h"
#include "codegen/cuda/emit_cuda_scalar.h"

namespace deepjit {

namespace {

// Of an instruction's two arguments one that is this constant, and then the other; -1 without.
int32_t beside_constant(const KernelIr& ir, int32_t i, Opcode op, double constant) {
  const Inst& inst = ir.insts[static_cast<size_t>(i)];
  if (inst.op != op) return -1;
  for (int k = 0; k < 2; ++k) {
    const Inst& arg = ir.insts[static_cast<size_t>(inst.args[k])];
    if (arg.op == Opcode::CONST && std::abs(arg.number - constant) < 1e-7) return inst.args[1 - k];
  }
  return -1;
}

// x when the instruction is 0.5 x (1 + erf(x / sqrt(2))); else -1.
int32_t gelu_argument(const KernelIr& ir, int32_t i) {
  const Inst& product = ir.insts[static_cast<size_t>(i)];
  if (product.op != Opcode::MUL) return -1;
  for (int k = 0; k < 2; ++k) {
    const int32_t x = beside_constant(ir, product.args[k], Opcode::MUL, 0.5);
    const int32_t erf = beside_constant(ir, product.args[1 - k], Opcode::ADD, 1);
    if (x < 0 || erf < 0 || ir.insts[static_cast<size_t>(erf)].op != Opcode::ERF) continue;
    const int32_t inner = ir.insts[static_cast<size_t>(erf)].args[0];
    if (beside_constant(ir, inner, Opcode::MUL, std::sqrt(0.5)) == x) return x;
  }
  return -1;
}

}  // namespace

std::string emit_epilogue_element(CudaWriter& out, const Epilogue& epilogue, DType type, const std::string& accumulator,
                                  const std::function<std::string(size_t)>& operand) {
  std::vector<std::string> names;
  for (size_t i = 0; i < epilogue.ir.insts.size(); ++i) {
    const Inst& inst = epilogue.ir.insts[i];
    if (inst.op == Opcode::CONST) {
      names.push_back(cuda_text::literal(inst.number, inst.type));
      continue;
    }
    std::string text;
    if (inst.op == Opcode::LOAD && inst.access == 0) {
      text = accumulator;
    } else if (inst.op == Opcode::LOAD) {
      const auto k = static_cast<size_t>(inst.access) - 1;
      text = cuda_text::from_memory(out, operand(k), epilogue.operands[k].dtype);
    } else {
      std::vector<std::string> args;
      for (int32_t a : inst.args) {
        if (a >= 0) args.push_back(names[static_cast<size_t>(a)]);
      }
      check_internal(!args.empty(), "codegen: an instruction without operands in an epilogue");
      const bool near = type != DType::FLOAT32;
      const int32_t gelu = near ? gelu_argument(epilogue.ir, static_cast<int32_t>(i)) : -1;
      text = gelu >= 0 ? out.call("near_gelu", names[static_cast<size_t>(gelu)])
             : near && inst.op == Opcode::ERF
                 ? out.call("near_erf", args[0])
                 : cuda_text::operation(out, inst, epilogue.ir.insts[static_cast<size_t>(inst.args[0])].type, args);
    }
    names.push_back(fmt::format("v{}", i));
    out.line("const {} {} = {};", cuda_register_type(inst.type), names.back(), text);
  }
  return names[static_cast<size_t>(epilogue.result)];
}

std::string epilogue_row_offset(const EpilogueOperand& operand, size_t i, const std::string& row,
                                const std::string& columns) {
  std::string place;
  const std::string& pattern = operand.rows;
  for (size_t s = 0; s < pattern.size(); ++s) {
    if (pattern[s] != 'M') continue;
    // What stands behind segment s, and its own extent.
    std::string behind;
    for (size_t t = s + 1; t < pattern.size(); ++t)
      behind += fmt::format("{}x{}_{}", behind.empty() ? "" : " * ", i, t);
    std::string index = behind.empty() ? row : fmt::format("{} / ({})", row, behind);
    if (s > 0) index = fmt::format("{} % x{}_{}", behind.empty() ? row : "(" + index + ")", i, s);
    place = place.empty() ? index : fmt::format("({}) * x{}_{} + {}", place, i, s, index);
  }
  if (place.empty()) return "0";
  return operand.columns ? fmt::format("({}) * {}", place, columns) : place;
}

}  // namespace deepjit
