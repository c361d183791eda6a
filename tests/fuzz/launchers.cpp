// The run-side providers of the fuzzers: the reference alone, since the harness runs no library kernel.
#include "kernels/kernel.h"
#include "kernels/provider_side.h"

namespace deepjit {

const std::vector<const Launcher*>& launchers() {
  static const std::vector<const Launcher*> list = {&reference_launcher()};
  return list;
}

const Launcher* find_launcher(const std::string& name) {
  return name == reference_launcher().name() ? &reference_launcher() : nullptr;
}

bool runs_on_cpu(const std::string&) { return true; }

}  // namespace deepjit
