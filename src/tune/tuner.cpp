#include "tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "device/clocks.h"
#include "kernels/kernel_cache.h"
#include "tune/cache.h"
#include "tune/candidate.h"
#include "tune/compile_ahead.h"
#include "tune/device_bench.h"
#include "tune/offers.h"
#include "tune/roofline.h"
#include "tune/task_order.h"
#include "tune/verify.h"

namespace deepjit {

namespace {

bool on_gpu(const TuneOptions& options) { return options.device != "cpu"; }

constexpr const char* kReference = "reference";

class Tuner {
 public:
  Tuner(Program& program, const TuneOptions& options, TuneReport before)
      : program_(program),
        options_(options),
        cache_(options.cache_dir),
        kernels_(options.cache_dir),
        offers_(program, options_, kernels_, [this] { return out_of_time(); }),
        start_(std::chrono::steady_clock::now()),
        report_(std::move(before)) {
    for (Choice& choice : report_.choices) chosen_.emplace(choice.fingerprint, std::move(choice));
    report_.choices.clear();
    if (!options.lock_text.empty()) locked_ = read_lock(options.lock_text);
    if (options_.present != nullptr) {
      options_.cold_constants = constants_are_cold(program_, options_.present->info());
    }
  }

  TuneReport run(const std::vector<TuneTask>& tasks) {
    const std::vector<const TuneTask*> order = by_work(tasks, on_gpu(options_));
    compile_offers(on_gpu(options_) ? outside_regions(order) : order);
    size_t done = 0;
    log_device("before");
    for (const TuneTask* task : order) {
      if (covered_.count(task->step) != 0) continue;
      Step& step = program_.steps[static_cast<size_t>(task->step)];
      const OfferBook::Entry& entry = offers_.of(*task);
      auto it = chosen_.find(entry.key);
      if (it == chosen_.end()) it = chosen_.emplace(entry.key, choose(step, *task, entry)).first;
      take(step, entry, it->second);
      note_unfused(*task, step, it->second);
      note_roofline(entry.shape, it->second, step);
      if (on_gpu(options_) && step.tactic.provider != kReference) cover(step);
      if (on_gpu(options_) && step.tactic.provider == kReference) {
        report_.refused[task->step] = entry.tactics.empty() ? entry.refused.reason : faults_[entry.key];
      }
      if (options_.progress) options_.progress(++done, tasks.size());
    }
    log_device("after");
    pack_taken();
    drop_packed_constants();
    for (std::string& line : roofline_.flagged()) report_.flagged.push_back(std::move(line));
    for (std::string& line : roofline_.suspicious()) report_.suspicious.push_back(std::move(line));
    for (const auto& [key, choice] : chosen_) report_.choices.push_back(choice);
    report_.lock_text = write_lock(report_.choices);
    report_.kernels_compiled += kernels_.compiled();
    report_.kernels_loaded += kernels_.loaded();
    report_.compile_s += kernels_.seconds();
    return std::move(report_);
  }

 private:
  // What can be compiled side by side before steps are measured one after another: what a step of a GPU falls back on
  // when time is up, however long that takes, then as many of the other offers as there is time for.
  void compile_offers(const std::vector<const TuneTask*>& order) {
    if (options_.present != nullptr) offers_.ask_all(order);
    if (on_gpu(options_) && (!measures() || options_.budget_s > 0)) {
      compile_ahead(jobs_of(order, true), [] { return false; });
    }
    if (measures()) compile_ahead(jobs_of(order, false), [this] { return out_of_time(); });
  }

  // The offers of each kind of step, or the tactic already known.
  std::vector<CompileJob> jobs_of(const std::vector<const TuneTask*>& order, bool only_first) {
    std::vector<CompileJob> jobs;
    std::set<std::string> seen;
    for (const TuneTask* task : order) {
      const OfferBook::Entry& entry = offers_.of(*task);
      if (!seen.insert(entry.key).second) continue;
      const std::optional<Choice> known = known_choice(entry);
      for (const Tactic& offer : entry.tactics) {
        if (known && tactic_name(offer) != known->tactic) continue;
        add_jobs(entry, offer, architectures_to_measure(), jobs);
        if (only_first) break;
      }
    }
    return jobs;
  }

  void add_jobs(const OfferBook::Entry& entry, const Tactic& tactic, const std::vector<int>& architectures,
                std::vector<CompileJob>& jobs) const {
    const Offerer* offerer = offers_.provider_of(tactic).offerer;
    if (!on_gpu(options_)) jobs.push_back({offerer, entry.shape, tactic});
    for (int architecture : architectures) {
      jobs.push_back({offerer, entry.shape, tactic});
      jobs.back().shape.architectures = {architecture};
    }
  }

  bool measures() const { return !on_gpu(options_) || (options_.present != nullptr && options_.measure); }

  std::vector<int> architectures_to_measure() const {
    if (options_.present == nullptr) return options_.architectures;
    return {options_.present->info().architecture};
  }

  void cover(const Step& region) {
    if (region.op != kRegionOp) return;
    const std::vector<int32_t>& inside = program_.blocks[static_cast<size_t>(region.blocks[0])].steps;
    covered_.insert(inside.begin(), inside.end());
  }

  // What the ledger says of a region whose steps run one by one.
  void note_unfused(const TuneTask& task, const Step& step, const Choice& choice) {
    if (task.body.empty() || step.tactic.provider != kReference) return;
    Refusal why{choice.why, ""};
    switch (choice.why) {
      case Why::NOT_FASTER:
        why.reason = fmt::format("the kernel takes {:.1f} us, the steps {:.1f} us", choice.figure, choice.time_us);
        break;
      case Why::KERNEL_WRONG:
        why.reason = choice.figure < 0 ? "the kernel differs from the reference in NaN or infinities"
                                       : fmt::format("the kernel has a relative error of {:.1e}", choice.figure);
        break;
      case Why::NONE:
      case Why::NO_KERNEL:
        why = {Why::NO_KERNEL, "no provider makes a kernel of the region at these shapes"};
        break;
      default:
        why.reason = why_rule(choice.why).rule;
    }
    const auto it = refused_.find(choice.fingerprint);
    if (choice.why == Why::NONE && it != refused_.end()) why = it->second;
    report_.unfused[task.step] = std::move(why);
  }

  static bool offered(const std::vector<Tactic>& offers, const std::string& name) {
    return std::any_of(offers.begin(), offers.end(), [&](const Tactic& t) { return tactic_name(t) == name; });
  }

  bool out_of_time() const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return options_.budget_s > 0 && spent.count() > options_.budget_s;
  }

  // A line of the lab-book: what is measured on, and its clocks now.
  void log_device(const char* when) const {
    if (options_.present == nullptr || !options_.measure) return;
    const std::optional<device::Clocks> clocks = device::gpu_clocks(*options_.present);
    log(fmt::format("{} tuning: {}, constants {}{}", when, gpu_text(options_.present->info()),
                    options_.cold_constants ? "cold" : "warm", clocks ? ", " + to_string(*clocks) : ""));
  }

  void note_roofline(const StepShape& shape, const Choice& choice, const Step& step) {
    if (!on_gpu(options_) || !measures() || step.tactic.provider == kReference) return;
    const auto roofline = roofline_of(shape, choice.time_us, options_.present->info());
    if (roofline) roofline_.add(choice.fingerprint, step, choice.time_us, *roofline);
  }

  // Behind a candidate's line.
  std::string roofline_text(const StepShape& shape, const Candidate& candidate) const {
    if (options_.present == nullptr) return "";
    const auto roofline = roofline_of(shape, candidate.timing.centre_us, options_.present->info());
    if (!roofline) return "";
    const char* verdict = roofline->suspicious ? ", faster than the GPU can be" : roofline->flagged ? ", flagged" : "";
    return ", " + to_string(*roofline) + verdict;
  }

  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  Choice choose(const Step& step, const TuneTask& task, const OfferBook::Entry& entry) {
    const std::vector<Tactic>& offers = entry.tactics;
    Choice choice{entry.key, step.op, kReference};
    if (entry.refused.rule != Why::NONE) refused_[entry.key] = entry.refused;
    // The only tactic of a step of the CPU is the reference itself.
    if (offers.empty() || (offers.size() == 1 && !on_gpu(options_))) {
      if (!offers.empty()) choice.tactic = tactic_name(offers[0]);
      return choice;
    }
    if (const auto known = known_choice(entry)) {
      ++report_.reused;
      return *known;
    }
    if (!measures()) return choose_unseen(std::move(choice), step, entry);
    if (out_of_time()) {
      ++report_.out_of_budget;
      choice.why = Why::NOT_REACHED;
      return on_gpu(options_) ? choose_unseen(std::move(choice), step, entry) : choice;
    }
    if (!measure(choice, step, task, entry)) {
      choice.why = Why::NOT_REACHED;
      return on_gpu(options_) ? choose_unseen(std::move(choice), step, entry) : choice;
    }
    if (task.body.empty() || choice.tactic.rfind(kReference, 0) != 0) choice.why = Why::NONE;
    // As the lockfile will give it back: a build from the lockfile then has the same bytes.
    choice = read_lock(write_lock({choice})).begin()->second;
    ++report_.measured;
    if (options_.force_tactic.empty()) cache_.store(choice, fingerprint_text(program_, task, options_));
    return choice;
  }

  // Of the lockfile, or of an earlier build on this machine.
  std::optional<Choice> known_choice(const OfferBook::Entry& entry) const {
    if (!options_.force_tactic.empty()) return std::nullopt;
    if (auto it = locked_.find(entry.key); it != locked_.end() && offered(entry.tactics, it->second.tactic)) {
      return it->second;
    }
    if (auto cached = cache_.find(entry.key); cached && offered(entry.tactics, cached->tactic)) return cached;
    return std::nullopt;
  }

  // Without a GPU, or without time: the first tactic that compiles.
  Choice choose_unseen(Choice choice, const Step& step, const OfferBook::Entry& entry) {
    StepShape shape = entry.shape;
    shape.architectures = architectures_to_measure();
    for (const Tactic& offer : entry.tactics) {
      try {
        offers_.provider_of(offer).offerer->compile(shape, offer);
        choice.tactic = tactic_name(offer);
        choice.why = Why::NONE;
        return choice;
      } catch (const Error& e) {
        if (e.code() != Code::INTERNAL) throw;  // the compiler is missing: no other tactic would do better
        drop(choice.fingerprint, step, offer, e.message());
      }
    }
    return choice;
  }

  void drop(const std::string& key, const Step& step, const Tactic& tactic, const std::string& fault) {
    log(fmt::format("{} {}: {} dropped: {}", step.name, step.op, tactic_name(tactic), fault));
    std::string& all = faults_[key];
    all += (all.empty() ? "" : "; ") + tactic_name(tactic) + ": " + fault;
  }

  bool skip(const Step& step) {
    log(fmt::format("{} {}: the budget ended while it was measured", step.name, step.op));
    ++report_.out_of_budget;
    return false;
  }

  // Verifies all offers and times those that agree with the reference. False when the budget ended before.
  bool measure(Choice& choice, const Step& step, const TuneTask& task, const OfferBook::Entry& entry) {
    const StepShape& shape = entry.shape;
    choice.why = Why::NO_KERNEL;
    std::optional<Verifier> made;
    try {
      made.emplace(program_, task, shape, options_);
    } catch (const Error& e) {
      if (e.code() != Code::INDEX_RANGE) throw;
      log(fmt::format("{} {}: not measured, for it indexes by what tuning has no data for: {}", step.name, step.op,
                      e.message()));
      return true;
    }
    Verifier& verifier = *made;
    if (out_of_time()) return skip(step);
    verifier.prepare();
    std::vector<Candidate> candidates;
    for (const Tactic& offer : entry.tactics) {
      if (out_of_time()) return skip(step);
      Candidate c{offer, nullptr, 0, {}};
      const std::string fault = prepare(c, shape, verifier, choice);
      if (fault.empty())
        candidates.push_back(std::move(c));
      else
        drop(choice.fingerprint, step, offer, fault);
    }
    if (candidates.empty()) return true;
    std::vector<Kernel*> kernels;
    for (const Candidate& c : candidates) kernels.push_back(c.kernel.get());
    const std::vector<Timing> timings =
        time_kernels(verifier.plain(), kernels, options_.threads > 1, [this] { return out_of_time(); });
    for (size_t i = 0; i < candidates.size(); ++i) candidates[i].timing = timings[i];
    const Candidate& best = pick(candidates, options_.force_tactic);
    for (const Candidate& c : candidates) {
      log(fmt::format("{} {}: {} {:.2f} us +-{:.2f}, error {:.1e}{}{}", step.name, step.op, tactic_name(c.tactic),
                      c.timing.centre_us, c.timing.spread_us, c.error, roofline_text(shape, c),
                      &c == &best ? " <- selected" : ""));
    }
    choice.tactic = tactic_name(best.tactic);
    choice.time_us = best.timing.centre_us;
    choice.spread_us = best.timing.spread_us;
    choice.max_error = best.error;
    if (candidates.size() > 1) explain(choice, candidates, best);
    return true;
  }

  // Why the best is not another one, for a region whose steps are the best.
  void explain(Choice& choice, const std::vector<Candidate>& candidates, const Candidate& best) const {
    const bool forced = options_.force_tactic == choice.tactic || options_.force_tactic == best.tactic.provider;
    choice.why = forced ? Why::TACTIC_FORCED : Why::NOT_FASTER;
    choice.figure = 0;
    for (const Candidate& c : candidates) {
      const double time = c.timing.centre_us;
      if (&c != &best && (choice.figure == 0 || time < choice.figure)) choice.figure = time;
    }
  }

  // Why the candidate cannot be used, or "".
  std::string prepare(Candidate& c, const StepShape& shape, Verifier& verifier, Choice& choice) const {
    try {
      StepShape here = shape;
      if (options_.present != nullptr) here.architectures = architectures_to_measure();
      const Provider& provider = offers_.provider_of(c.tactic);
      provider.offerer->pack(here, c.tactic);
      if (provider.launcher == nullptr) return "its provider is not in the runtime";
      c.kernel = provider.launcher->make(here, c.tactic);
      if (c.kernel == nullptr) return "no kernel for these shapes";
      const Verifier::Verdict verdict = verifier.check(*c.kernel, *provider.launcher, c.tactic);
      c.error = verdict.error;
      if (!verdict.fault.empty()) {
        choice.why = Why::KERNEL_WRONG;
        choice.figure = std::isfinite(c.error) ? c.error : -1;
      }
      return verdict.fault;
    } catch (const Error& e) {
      if (e.code() == Code::DEVICE_LOST || e.code() == Code::LIBRARY_MISSING) throw;
      return e.message();
    }
  }

  // On a GPU what it packs comes at the end, for all steps side by side; a region of the CPU is measured against its
  // steps as they are packed.
  void take(Step& step, const OfferBook::Entry& entry, const Choice& choice) {
    for (const Tactic& offer : entry.tactics) {
      if (tactic_name(offer) != choice.tactic) continue;
      step.tactic = offer;
      step.tactic.time_us = choice.time_us;
      step.tactic.max_error = choice.max_error;
      if (on_gpu(options_))
        taken_.push_back({&step, &entry});
      else
        offers_.provider_of(offer).offerer->pack(entry.shape, step.tactic);
      return;
    }
  }

  void pack_taken() {
    std::vector<CompileJob> jobs;
    for (const Taken& t : taken_) add_jobs(*t.entry, t.step->tactic, options_.architectures, jobs);
    compile_ahead(jobs, [] { return false; });
    std::mutex mutex;
    std::exception_ptr failure;
    const auto pack = [&](size_t i) {
      try {
        offers_.provider_of(taken_[i].step->tactic).offerer->pack(taken_[i].entry->shape, taken_[i].step->tactic);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        failure = std::current_exception();
      }
    };
    side_by_side(taken_.size(), pack, [] { return false; });
    if (failure) std::rethrow_exception(failure);
  }

  // A constant that every reader has in packed form is not kept a second time.
  void drop_packed_constants() {
    std::set<int32_t> needed;
    for (const Step& step : program_.steps) {
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        const bool packed = std::any_of(step.tactic.packed.begin(), step.tactic.packed.end(),
                                        [&](const auto& p) { return p.input == static_cast<int32_t>(i); });
        if (!packed) needed.insert(step.inputs[i]);
      }
    }
    for (const Block& block : program_.blocks) needed.insert(block.outputs.begin(), block.outputs.end());
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      if (program_.buffers[i].is_constant && needed.count(static_cast<int32_t>(i)) == 0) {
        program_.buffers[i].constant = Tensor();
      }
    }
  }

  Program& program_;
  TuneOptions options_;
  TuningCache cache_;
  KernelCache kernels_;
  OfferBook offers_;
  std::chrono::steady_clock::time_point start_;
  std::map<std::string, Choice> locked_;
  std::map<std::string, Choice> chosen_;
  std::set<int32_t> covered_;                  // steps inside regions that have a kernel
  std::map<std::string, std::string> faults_;  // of dropped candidates, by fingerprint
  std::map<std::string, Refusal> refused_;     // by fingerprint: regions that no provider generates
  struct Taken {
    Step* step;
    const OfferBook::Entry* entry;
  };
  std::vector<Taken> taken_;  // of a GPU: steps whose tactic is still to be packed
  RooflineReport roofline_;
  TuneReport report_;
};

}  // namespace

TuneReport tune(Program& program, const std::vector<TuneTask>& tasks, const TuneOptions& options, TuneReport before) {
  return Tuner(program, options, std::move(before)).run(tasks);
}

}  // namespace deepjit
