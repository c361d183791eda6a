// The build side of the reference provider: one tactic for every op that has an implementation.
#include "kernels/kernel.h"
#include "kernels/reference/launch_region.h"
#include "ops/op.h"

namespace deepjit {
namespace {

class ReferenceOfferer : public Offerer {
 public:
  std::string name() const override { return "reference"; }

  Offer offer(const StepShape& shape) const override {
    Offer result;
    if (!shape.body.empty()) {  // step by step
      result.tactics.emplace_back();
      result.tactics.back().variant = kStepByStep;
      return result;
    }
    const OpDef* def = op_registry().find(shape.step->op);
    if (def == nullptr || !def->evaluate) {
      result.reason = shape.step->op + " has no reference implementation";
    } else {
      result.tactics.emplace_back();
    }
    return result;
  }

  void pack(const StepShape&, Tactic&) const override {}
};

}  // namespace

const Offerer& reference_offerer() {
  static const ReferenceOfferer offerer;
  return offerer;
}

}  // namespace deepjit
