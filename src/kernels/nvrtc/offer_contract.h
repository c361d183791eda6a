// The build side of generated contractions and windows.
#pragma once

#include "codegen/contract/contract.h"
#include "codegen/contract/window.h"
#include "kernels/kernel.h"
#include "kernels/nvrtc/contract_problem.h"

namespace deepjit::nvrtc_gpu {

// A tactic for each tile that may pay off, without packed operands; or why there is none.
Offer offer_contract(const StepShape& shape);

// A tactic's text, and the operands that it packs beside its code.
struct ContractCode {
  ContractText text;
  std::vector<PackedOperand> operands;
};
ContractCode contract_code(const StepShape& shape, const std::string& variant);

// How a problem is told to the code generators.
ContractSpec contract_spec(const ContractProblem& problem, const StepShape& shape);
WindowSpec window_spec(const ContractProblem& problem, const StepShape& shape);

// Tiles for a product, likely the best first, for a device with that many processors; `groups`: one of sm_90a.
std::vector<ContractTile> contract_tiles(const ContractProblem& problem, const ContractSpec& spec, bool tf32,
                                         int processors, bool groups = false);

// The same for a window.
std::vector<WindowTile> window_tiles(const ContractProblem& problem, const WindowSpec& spec, int processors);

// Is this variant one of a contraction or window?
bool is_contract_variant(const std::string& variant);

}  // namespace deepjit::nvrtc_gpu
