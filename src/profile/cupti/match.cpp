#include "profile/cupti/match.h"

#include <fmt/format.h>

namespace deepjit::profile::cupti {

bool matches(const std::vector<Launched>& launched, const std::vector<Activity>& replayed, std::string& why) {
  if (launched.size() != replayed.size()) {
    why = fmt::format("a replay ran {} kernels and copies, the steps one by one {}", replayed.size(), launched.size());
    return false;
  }
  for (size_t i = 0; i < launched.size(); ++i) {
    const bool kernels = launched[i].kind == Activity::Kind::KERNEL && replayed[i].kind == Activity::Kind::KERNEL;
    if (!kernels || launched[i].name == replayed[i].name) continue;
    why =
        fmt::format("number {} of a replay was {}, of the steps one by one {}", i, replayed[i].name, launched[i].name);
    return false;
  }
  return true;
}

}  // namespace deepjit::profile::cupti
