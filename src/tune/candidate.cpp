#include "tune/candidate.h"

#include <algorithm>

namespace deepjit {

std::string tactic_name(const Tactic& tactic) {
  return tactic.variant.empty() ? tactic.provider : tactic.provider + ":" + tactic.variant;
}

const Candidate& pick(const std::vector<Candidate>& candidates, const std::string& forced) {
  for (const Candidate& c : candidates) {
    if (!forced.empty() && (tactic_name(c.tactic) == forced || c.tactic.provider == forced)) return c;
  }
  const Candidate* best = &candidates[0];
  for (const Candidate& c : candidates) {
    if (c.timing.centre_us < best->timing.centre_us) best = &c;
  }
  const Candidate* chosen = best;
  for (const Candidate& c : candidates) {
    // However noisy the machine, a tactic that looks 5% slower is not taken for its name.
    const double spread = std::min(std::max(c.timing.spread_us, best->timing.spread_us), 0.02 * best->timing.centre_us);
    const double noise = 2 * spread + 0.005 * best->timing.centre_us;
    if (c.timing.centre_us - best->timing.centre_us > noise) continue;
    if (tactic_name(c.tactic) < tactic_name(chosen->tactic)) chosen = &c;
  }
  return *chosen;
}

}  // namespace deepjit
