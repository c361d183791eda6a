// The build side of the oneDNN provider.
#include "kernels/kernel.h"

namespace deepjit {
namespace {

class OnednnOfferer : public Offerer {
 public:
  std::string name() const override { return "onednn"; }
  Offer offer(const StepShape& shape) const override { return Offer{{}, shape.step->op + " is not a oneDNN family"}; }
  void pack(const StepShape&, Tactic&) const override {}
};

}  // namespace

const Offerer& onednn_offerer() {
  static const OnednnOfferer offerer;
  return offerer;
}

}  // namespace deepjit
