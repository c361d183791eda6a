#include "tune/offers.h"

#include <algorithm>

#include "base/sha256.h"
#include "tune/candidate.h"
#include "tune/verify.h"

namespace deepjit {

OfferBook::OfferBook(const Program& program, const TuneOptions& options, KernelCache& kernels,
                     std::function<bool()> late)
    : program_(program), options_(options), kernels_(kernels), late_(std::move(late)) {
  for (const Offerer* offerer : offerers()) providers_.push_back({offerer, find_launcher(offerer->name())});
  providers_.insert(providers_.end(), options.more_providers.begin(), options.more_providers.end());
}

const OfferBook::Entry& OfferBook::of(const TuneTask& task) {
  Entry& entry = entries_[&task];
  if (entry.key.empty()) ask(task, entry);
  return entry;
}

void OfferBook::ask_all(const std::vector<const TuneTask*>& tasks) {
  for (const TuneTask* task : tasks) entries_[task];
  side_by_side(
      tasks.size(), [&](size_t i) { ask(*tasks[i], entries_.at(tasks[i])); }, [] { return false; });
}

const Provider& OfferBook::provider_of(const Tactic& tactic) const {
  for (const Provider& provider : providers_) {
    if (provider.offerer->name() == tactic.provider) return provider;
  }
  throw Error(Code::INTERNAL, "no provider named " + tactic.provider);
}

void OfferBook::ask(const TuneTask& task, Entry& entry) const {
  entry.shape = shape_of(program_, task, options_);
  entry.shape.kernels = &kernels_;
  StepShape shape = entry.shape;
  // A lockfile or cache may know one of the proposals.
  if (options_.lock_text.empty() && options_.cache_dir.empty() && late_()) shape.device = nullptr;
  collect(shape, entry);
  sort_by_trust(entry.tactics);
  entry.key = sha256_hex(fingerprint_text(program_, task, options_)).substr(0, 32);
}

void OfferBook::collect(const StepShape& shape, Entry& entry) const {
  for (const Provider& provider : providers_) {
    if (provider.offerer->device() != options_.device) continue;
    Offer offer = provider.offerer->offer(shape);
    for (Tactic& t : offer.tactics) entry.tactics.push_back(std::move(t));
    if (!offer.reason.empty()) entry.refused = {offer.rule, offer.reason};
  }
}

// What is forced; where all is to be ready soon, what libraries proposed; then as the providers offered. Without a GPU
// nobody knows whether a library has a kernel.
void OfferBook::sort_by_trust(std::vector<Tactic>& tactics) const {
  const auto rank = [&](const Tactic& t) {
    if (tactic_name(t) == options_.force_tactic || t.provider == options_.force_tactic) return 0;
    const bool library = !provider_of(t).offerer->measured_with().empty();
    return options_.present != nullptr && !options_.measure && library ? 1 : 2;
  };
  std::stable_sort(tactics.begin(), tactics.end(), [&](const Tactic& a, const Tactic& b) { return rank(a) < rank(b); });
}

}  // namespace deepjit
