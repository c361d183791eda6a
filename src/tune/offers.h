// What the providers offer for the steps of one tuning: each is asked once a task, for what the tuner compiles ahead
// and for what it chooses from.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/refusal.h"
#include "tune/compile_ahead.h"
#include "tune/tuner.h"

namespace deepjit {

class OfferBook {
 public:
  // `late`: is the budget spent? Libraries are then not asked any more.
  OfferBook(const Program& program, const TuneOptions& options, KernelCache& kernels, std::function<bool()> late);

  struct Entry {
    StepShape shape;
    std::vector<Tactic> tactics;  // in the order of trust: what is taken where nothing is measured comes first
    Refusal refused;              // why the last provider that offers nothing does so
    std::string key;              // the fingerprint of the task
  };
  const Entry& of(const TuneTask& task);
  // The same for all of these side by side: libraries of a GPU take their time to propose.
  void ask_all(const std::vector<const TuneTask*>& tasks);

  const Provider& provider_of(const Tactic& tactic) const;

 private:
  void ask(const TuneTask& task, Entry& entry) const;
  void collect(const StepShape& shape, Entry& entry) const;
  void sort_by_trust(std::vector<Tactic>& tactics) const;

  const Program& program_;
  const TuneOptions& options_;
  KernelCache& kernels_;
  std::function<bool()> late_;
  std::vector<Provider> providers_;
  std::map<const TuneTask*, Entry> entries_;
};

}  // namespace deepjit
