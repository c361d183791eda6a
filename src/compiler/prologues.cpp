#include "compiler/prologues.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/packed_constants.h"
#include "kernels/kernel.h"
#include "kernels/nvrtc/contract_problem.h"
#include "kernels/provider_side.h"
#include "lower/prologues.h"
#include "tune/candidate.h"

namespace deepjit {

namespace {

constexpr double kGain = 0.03;  // of the time, that must be won: what noise and a larger kernel are worth

// A product's weights of which only the packed form is left.
void restore_weights(Program& program, const Step& product) {
  for (const PackedOperand& packed : product.tactic.packed) {
    if (packed.input == 1) unpack_constant(program, product, packed);
  }
}

// Of the edge between the two: gone, or why it stays.
void note_edge(Program& program, int32_t buffer, bool joined, const std::string& reason) {
  if (joined) {
    std::erase_if(program.ledger, [&](const LedgerEntry& entry) { return entry.value == buffer; });
    return;
  }
  for (LedgerEntry& entry : program.ledger) {
    if (entry.value == buffer && !reason.empty()) entry.reason += reason;
  }
}

class Trial {
 public:
  Trial(Program& program, const TuneOptions& options, const ProloguePair& pair)
      : program_(program), options_(options), pair_(pair) {}

  TuneReport run(TuneReport report) {
    const Step region = step(pair_.region);
    const double apart = region.tactic.time_us + step(pair_.product).tactic.time_us;
    const int32_t between = region.outputs[0];
    restore_weights(program_, step(pair_.product));
    join_prologue(program_, pair_);
    report = tune_joined(std::move(report));
    const Tactic& joined = step(pair_.region).tactic;
    const bool made = joined.provider == nvrtc_launcher().name() && joined.time_us > 0;  // 0: time was up
    const bool forced = options_.force_tactic == tactic_name(joined) || options_.force_tactic == joined.provider;
    const bool faster = made && (forced || joined.time_us < (1 - kGain) * apart);
    const std::string times =
        made ? fmt::format("; in one kernel they take {:.1f} us, apart {:.1f} us", joined.time_us, apart) : "";
    if (options_.log && made) options_.log(step(pair_.region).name + times + (faster ? " <- joined" : ""));
    if (!faster) {
      part_prologue(program_, pair_);
      step(pair_.region) = region;
    }
    report.unfused.erase(pair_.region);
    report.refused.erase(pair_.region);
    note_edge(program_, between, faster, times);
    return report;
  }

 private:
  Step& step(int32_t index) { return program_.steps[static_cast<size_t>(index)]; }

  TuneReport tune_joined(TuneReport report) {
    bool guessed = false;
    std::vector<TuneTask> tasks = probe(program_, Which::OPT, options_.threads, &guessed).tasks;
    std::erase_if(tasks, [&](const TuneTask& task) { return task.step != pair_.region; });
    return tasks.empty() ? std::move(report) : tune(program_, tasks, options_, std::move(report));
  }

  Program& program_;
  const TuneOptions& options_;
  ProloguePair pair_;
};

bool measured_on_device(const Step& step) { return step.tactic.time_us > 0 && !runs_on_cpu(step.tactic.provider); }

}  // namespace

TuneReport tune_prologues(Program& program, const TuneOptions& options, TuneReport before) {
  if (options.present == nullptr || !options.measure) return before;
  for (const ProloguePair& pair : find_prologues(program, nvrtc_gpu::is_contraction)) {
    const Step &region = program.steps[static_cast<size_t>(pair.region)],
               &product = program.steps[static_cast<size_t>(pair.product)];
    if (!measured_on_device(region) || !measured_on_device(product)) continue;
    before = Trial(program, options, pair).run(std::move(before));
  }
  return before;
}

void part_all_prologues(Program& program) { part_prologues(program, nvrtc_gpu::is_contraction); }

}  // namespace deepjit
