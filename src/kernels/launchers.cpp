// The list of run-side providers.
#include <algorithm>

#include "kernels/kernel.h"
#include "kernels/provider_side.h"

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

bool runs_on_cpu(const std::string& provider) {
  const Launcher* const of_cpu[] = {&reference_launcher(), &onednn_launcher(), &llvm_launcher()};
  return std::any_of(std::begin(of_cpu), std::end(of_cpu),
                     [&](const Launcher* launcher) { return launcher->name() == provider; });
}

}  // namespace deepjit
