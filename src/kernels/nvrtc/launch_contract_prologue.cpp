// Pointwise steps before a product, which become its prologue; and how operands lie over rows.
#include <algorithm>
#include <optional>

#include "kernels/nvrtc/contract_rows.h"

namespace deepjit::nvrtc_gpu {

namespace {

// A pointwise op as a term without operand; nothing when it has no such form.
std::optional<EpilogueTerm> unary_term(const Step& step) {
  const Attributes& attrs = step.attrs;
  for (const char* plain : {"Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Sqrt", "HardSwish", "Softplus"}) {
    if (step.op == plain) return EpilogueTerm{step.op};
  }
  if (step.op == "Gelu") {
    return EpilogueTerm{attrs.get_string("approximate", "none") == "tanh" ? "GeluTanh" : "Gelu"};
  }
  if (step.op == "LeakyRelu") return EpilogueTerm{step.op, static_cast<double>(attrs.get_float("alpha", 0.01f))};
  if (step.op == "Elu") return EpilogueTerm{step.op, static_cast<double>(attrs.get_float("alpha", 1))};
  if (step.op == "HardSigmoid") {
    return EpilogueTerm{step.op, static_cast<double>(attrs.get_float("alpha", 0.2f)),
                        static_cast<double>(attrs.get_float("beta", 0.5f))};
  }
  return std::nullopt;
}

// Which input of the region a buffer is, or -1.
int region_input(const StepShape& region, int32_t buffer) {
  const std::vector<int32_t>& inputs = region.step->inputs;
  const auto at = std::find(inputs.begin(), inputs.end(), buffer);
  return buffer < 0 || at == inputs.end() ? -1 : static_cast<int>(at - inputs.begin());
}

// What one step does to the value in buffer `chain`; false when it is no term.
bool add_prologue_term(const StepShape& region, const StepShape& inner, int32_t chain, ContractProblem& p) {
  const Step& step = *inner.step;
  const Dims& rows = region.inputs[0].dims;
  if (step.outputs.size() != 1 || inner.outputs[0].dtype != p.type || !(inner.outputs[0].dims == rows)) return false;
  if (step.inputs.size() == 1 && step.inputs[0] == chain) {
    const auto term = unary_term(step);
    if (term) p.prologue.push_back(*term);
    return term.has_value();
  }
  const bool ordered = step.op == "Sub" || step.op == "Div";
  if (step.inputs.size() != 2 || (!ordered && step.op != "Mul" && step.op != "Add")) return false;
  const size_t own = step.inputs[0] == chain ? 0 : 1;
  if (step.inputs[own] != chain || step.inputs[1 - own] == chain || (ordered && own == 1)) return false;
  EpilogueSource source;
  source.input = region_input(region, step.inputs[1 - own]);
  source.dtype = inner.inputs[1 - own].dtype;
  if (source.input < 0 || source.dtype != p.type || !describe_rows(inner.inputs[1 - own].dims, rows, source)) {
    return false;
  }
  p.prologue.push_back({step.op, 1, 0, static_cast<int>(p.prologue_operands.size())});
  p.prologue_operands.push_back(std::move(source));
  return true;
}

}  // namespace

bool describe_rows(const Dims& operand, const Dims& result, EpilogueSource& source) {
  const int rank = result.rank();
  if (operand.rank() > rank) return false;
  const auto at = [&](int i) {
    const int own = i - (rank - operand.rank());
    return own < 0 ? int64_t{1} : operand[own];
  };
  if (rank > 0 && at(rank - 1) != 1 && at(rank - 1) != result[rank - 1]) return false;
  source.columns = rank > 0 && at(rank - 1) == result[rank - 1];
  std::vector<int64_t> extents;
  for (int i = 0; i + 1 < rank; ++i) {
    if (at(i) != 1 && at(i) != result[i]) return false;
    if (result[i] == 1) continue;
    const char kind = at(i) == 1 ? 'S' : 'M';
    if (!source.rows.empty() && source.rows.back() == kind) {
      extents.back() = checked_mul(extents.back(), result[i]);
      continue;
    }
    source.rows += kind;
    extents.push_back(result[i]);
  }
  if (source.rows.empty()) source.rows = "S";
  if (source.rows.size() > 3) return false;
  for (size_t i = 1; i < extents.size(); ++i) source.extents[i - 1] = extents[i];
  return true;
}

ContractProblem product_of_region(const StepShape& region) {
  const StepShape& last = region.body.back();
  ContractProblem p = contract_problem(last);
  if (!p.reason.empty()) return p;
  const bool plain_rows = p.kind == ContractProblem::Kind::PRODUCT && !p.a_columns && !p.batched;
  if (!plain_rows || !(region.inputs[0].dims == last.inputs[0].dims)) p.reason = "it does not read plain rows";
  if (region_input(region, last.step->inputs[1]) != 1) p.reason = "its operands come in another order";
  int32_t chain = region.step->inputs[0];
  for (size_t i = 0; i + 1 < region.body.size() && p.reason.empty(); ++i) {
    if (!add_prologue_term(region, region.body[i], chain, p)) {
      p.reason = region.body[i].step->op + " is nothing that is done to an operand";
    }
    chain = region.body[i].step->outputs[0];
  }
  if (p.reason.empty() && chain != last.step->inputs[0]) p.reason = "it reads another value";
  for (EpilogueSource& s : p.operands) {
    s.input = region_input(region, last.step->inputs[static_cast<size_t>(s.input)]);
    if (s.input < 0) p.reason = "an operand of its epilogue is made inside the region";
  }
  return p;
}

}  // namespace deepjit::nvrtc_gpu
