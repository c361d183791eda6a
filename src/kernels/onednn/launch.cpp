// The run side of the oneDNN provider.
#include "kernels/kernel.h"

namespace deepjit {
namespace {

class OnednnLauncher : public Launcher {
 public:
  std::string name() const override { return "onednn"; }
  std::unique_ptr<Kernel> make(const StepShape&, const Tactic&) const override { return nullptr; }
  Tensor unpack(const PackedOperand&, const TensorDesc&) const override {
    throw Error(Code::INTERNAL, "the oneDNN provider did not pack this operand");
  }
};

}  // namespace

const Launcher& onednn_launcher() {
  static const OnednnLauncher launcher;
  return launcher;
}

}  // namespace deepjit
