#include "codegen/contract/epilogue.h"

#include "base/error.h"
#include "codegen/cuda/emit_cuda_scalar.h"

namespace deepjit {

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
      const bool near = inst.op == Opcode::ERF && type != DType::FLOAT32;
      text = near ? out.call("near_erf", args[0])
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
