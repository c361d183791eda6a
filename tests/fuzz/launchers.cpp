// The run-side providers of the fuzzers: the reference alone, since the harness runs no library kernel.
#include "kernels/kernel.h"

namespace deepjit {

const std::vector<const Launcher*>& launchers() {
  static const std::vector<const Launcher*> list = {&reference_launcher()};
  return list;
}

const Launcher* find_launcher(const std::string& name) {
  return name == reference_launcher().name() ? &reference_launcher() : nullptr;
}

}  // namespace deepjit
