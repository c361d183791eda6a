// The list of run-side providers.
#include "kernels/kernel.h"

namespace deepjit {

const std::vector<const Launcher*>& launchers() {
  static const std::vector<const Launcher*> list = {
      &reference_launcher(), &onednn_launcher(),   &llvm_launcher(),
      &nvrtc_launcher(),     &cublaslt_launcher(), &cudnn_launcher(),
  };
  return list;
}

const Launcher* find_launcher(const std::string& name) {
  for (const Launcher* launcher : launchers()) {
    if (launcher->name() == name) return launcher;
  }
  return nullptr;
}

}  // namespace deepjit
