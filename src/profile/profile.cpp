#include "profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "profile/attribute.h"
#include "profile/calls.h"
#include "profile/limits.h"
#include "profile/load.h"
#include "profile/method.h"
#include "profile/statistics.h"

namespace deepjit::profile {

namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Runs until the times of batches of runs settle.
template <typename F>
WarmUp warm_up(double least_s, F&& run) {
  constexpr double kBatchUs = 10'000;
  constexpr size_t kBatches = 5;
  constexpr double kSame = 0.03;
  WarmUp done;
  std::vector<double> medians;
  const auto start = Clock::now();
  while (true) {
    std::vector<double> batch;
    const auto batch_start = Clock::now();
    do {
      const auto before = Clock::now();
      run();
      batch.push_back(us_since(before));
      ++done.runs;
    } while (us_since(batch_start) < kBatchUs);
    medians.push_back(times_of(batch).p50);
    done.seconds = us_since(start) / 1e6;
    if (medians.size() >= kBatches) {
      const auto [low, high] = std::minmax_element(medians.end() - kBatches, medians.end());
      done.stable = *high <= *low * (1 + kSame);
    }
    if (done.seconds >= least_s && (done.stable || done.seconds >= 3 * least_s)) return done;
  }
}

// The samples of all runs, and the spans of some.
class Samples {
 public:
  explicit Samples(size_t steps) : steps_(steps + 1), of_step_(steps + 1, 0) {}

  void add(Timeline line, const Cost& cost) {
    std::fill(of_step_.begin(), of_step_.end(), 0);
    shares_.push_back(attribute(line, cost, of_step_));
    wall_.push_back(line.wall_us);
    for (size_t i = 0; i < steps_.size(); ++i) steps_[i].push_back(static_cast<float>(of_step_[i]));
    kept_spans_ += line.spans.size();
    if (kept_spans_ <= kMostSpans || kept_.empty()) kept_.push_back(std::move(line));
  }

  // Of runs that profiling slows down much: what lies outside of steps and copies is that of runs without it, which
  // took `wall_us`, and on the device `device_us`; the rest is profiling.
  void take_out_profiling(double wall_us, double device_us) {
    for (Shares& run : shares_) {
      const double outside = run.gaps + run.host;
      run.gaps = std::clamp(device_us - run.steps, 0.0, run.gaps);
      run.host = std::clamp(wall_us - run.steps - run.copy_in - run.copy_out - run.gaps, 0.0, outside - run.gaps);
      run.profiling += outside - run.gaps - run.host;
    }
  }

  size_t runs() const { return wall_.size(); }

  // Once all runs are there.
  void close() { middle_ = middle_of(wall_); }

  Times of_step(size_t slot, double scale) const { return scaled(times_of(steps_[slot], middle_), scale); }
  Times wall(double scale) const { return scaled(times_of(wall_, middle_), scale); }

  std::vector<Part> parts(double scale) const {
    const std::pair<const char*, double Shares::*> names[] = {
        {"steps", &Shares::steps}, {"copy in", &Shares::copy_in}, {"copy out", &Shares::copy_out},
        {"gaps", &Shares::gaps},   {"host", &Shares::host},       {"profiling", &Shares::profiling}};
    const double whole = unobserved(1);
    std::vector<Part> parts;
    for (const auto& [name, member] : names) {
      std::vector<double> samples;
      for (const Shares& one : shares_) samples.push_back(one.*member);
      const Times times = times_of(std::move(samples), middle_);
      parts.push_back({name, scaled(times, scale), whole > 0 ? times.typical / whole : 0});
    }
    return parts;
  }

  // The typical wall time without what profiling took.
  double unobserved(double scale) const {
    std::vector<double> samples;
    for (size_t i = 0; i < wall_.size(); ++i) samples.push_back(wall_[i] - shares_[i].profiling);
    return mean_of(samples, middle_) * scale;
  }

  // Of the runs that were kept, the one that is closest to the median.
  Timeline typical(double scale) const {
    const double middle = times_of(wall_, middle_).p50;
    Timeline line = *std::min_element(kept_.begin(), kept_.end(), [&](const Timeline& a, const Timeline& b) {
      return std::abs(a.wall_us - middle) < std::abs(b.wall_us - middle);
    });
    line.wall_us *= scale;
    for (Span& span : line.spans) {
      span.start_us *= scale;
      span.end_us *= scale;
    }
    return line;
  }

 private:
  static constexpr size_t kMostSpans = size_t{1} << 20;
  static Times scaled(Times t, double scale) { return {t.p50 * scale, t.p95 * scale, t.typical * scale}; }

  std::vector<std::vector<float>> steps_;  // by step, then run; the last are copies
  std::vector<double> of_step_;
  std::vector<Shares> shares_;
  std::vector<double> wall_;
  std::vector<Timeline> kept_;
  size_t kept_spans_ = 0;
  std::vector<size_t> middle_;  // typical runs
};

class Profiler {
 public:
  Profiler(std::shared_ptr<const Engine> engine, std::span<const TensorView> inputs, const Options& options)
      : engine_(std::move(engine)),
        inputs_(inputs.begin(), inputs.end()),
        options_(options),
        context_(engine_, options.threads),
        program_(engine_->program_for(inputs_)),
        samples_(program_.steps.size()) {}

  Profile run() {
    Calls calls(program_);
    plain_run();
    context_.set_observer(&calls);
    plain_run();
    context_.set_observer(nullptr);
    result_.steps = calls.records();
    result_.launches = calls.launches();
    on_device_ = engine_->device_side() != nullptr;
    result_.limits = on_device_ ? device_limits(device()) : cpu_limits(context_.threads());
    {
      const Load load = busy();
      result_.warm_up = warm_up(options_.warm_up_s, [&] { plain_run(); });
      if (on_device_) result_.clocks_before = device::gpu_clocks(device());
    }
    context_.measure_device_time(true);
    plain_run();
    context_.finish();  // with the graph that tells time, which is another
    if (!measured_by_cupti()) measure_in_turns();
    if (on_device_) result_.unprofiled_device = times_of(std::move(device_us_));
    samples_.close();
    if (on_device_) result_.clocks_after = device::gpu_clocks(device());
    describe();
    fill_records();
    return std::move(result_);
  }

 private:
  void plain_run() { context_.run(inputs_, outputs_); }
  device::Device& device() const { return engine_->device_side()->device(); }
  Load busy() const { return Load(engine_, inputs_, options_.contexts - 1, context_.threads()); }

  double timed_plain_run() {
    const auto before = Clock::now();
    plain_run();
    const double us = us_since(before);
    if (on_device_) device_us_.push_back(context_.device_us());
    return us;
  }

  bool enough(Clock::time_point start, size_t runs, double seconds) const {
    if (options_.iterations > 0) return runs >= static_cast<size_t>(options_.iterations);
    return runs >= kMostIterations || (runs >= 5 && us_since(start) >= seconds * 1e6);
  }

  void measure_in_turns() {
    method_ = on_device_ ? make_event_method(context_, inputs_) : make_host_method(context_, inputs_);
    const Load load = busy();
    // What is done with a run's marks leaves the caches colder for the next: one that does not count warms them again.
    constexpr double kShortUs = 2000;
    const bool settles = timed_plain_run() < kShortUs;
    device_us_.clear();  // of the runs that count, and of no other
    std::vector<double> unprofiled;
    const auto start = Clock::now();
    while (!enough(start, samples_.runs(), options_.seconds)) {
      if (settles) plain_run();
      unprofiled.push_back(timed_plain_run());
      if (settles) plain_run();
      samples_.add(method_->run(), method_->cost());
    }
    result_.unprofiled = times_of(std::move(unprofiled));
  }

  // Runs without it come first: once it records, every run is slower.
  bool measured_by_cupti() {
    if (!on_device_ || device().info().kind != "cuda") return false;
    try {
      std::vector<double> unprofiled;
      {
        const Load load = busy();
        const auto start = Clock::now();
        while (!enough(start, unprofiled.size(), options_.seconds / 2)) unprofiled.push_back(timed_plain_run());
      }
      method_ = make_cupti_method(engine_, inputs_, context_.threads());
      const Load load = busy();
      warm_up(options_.warm_up_s / 4, [&] { method_->run(); });
      const auto start = Clock::now();
      while (!enough(start, samples_.runs(), options_.seconds / 2)) samples_.add(method_->run(), {});
      result_.unprofiled = times_of(std::move(unprofiled));
      samples_.take_out_profiling(result_.unprofiled.typical, times_of(device_us_).typical);
      return true;
    } catch (const Error& e) {
      if (e.code() != Code::LIBRARY_MISSING && e.code() != Code::STATE) throw;
      result_.note = e.message();
      samples_ = Samples(program_.steps.size());
      device_us_.clear();
      method_ = nullptr;
      return false;
    }
  }

  void describe() {
    const Program& program = program_;
    scale_ = method_->scale();
    result_.device = engine_->device_name();
    const auto precision = program.metadata.find("build.precision");
    result_.precision = precision == program.metadata.end() ? "fp32" : precision->second;
    result_.method = method_->name();
    result_.kernels = method_->kernels();
    result_.threads = context_.threads();
    result_.contexts = options_.contexts;
    result_.runs = samples_.runs();
    result_.wall = samples_.wall(scale_);
    result_.parts = samples_.parts(scale_);
    result_.typical = samples_.typical(scale_);
    result_.clock_cost_us = method_->cost().inside_us * scale_;
  }

  void fill_records() {
    const Program& program = program_;
    const std::map<int32_t, double> launches = method_->launches();
    const double whole = samples_.unobserved(scale_);
    for (StepRecord& record : result_.steps) {
      const size_t slot = record.step < 0 ? program.steps.size() : static_cast<size_t>(record.step);
      record.times = samples_.of_step(slot, scale_);
      record.share = whole > 0 ? record.times.typical / whole : 0;
      const auto known = launches.find(record.step);
      record.launches = known != launches.end() ? known->second : record.provider == "control" ? 0 : record.calls;
      const bool arithmetic = record.step >= 0 && counts_by_arithmetic(program, program.steps[slot]);
      rate(record, result_.limits, arithmetic);
    }
    std::stable_sort(result_.steps.begin(), result_.steps.end(), [](const StepRecord& a, const StepRecord& b) {
      return (a.calls > 0) != (b.calls > 0) ? a.calls > 0 : a.times.typical > b.times.typical;
    });
  }

  std::shared_ptr<const Engine> engine_;
  std::vector<TensorView> inputs_;
  std::vector<TensorView> outputs_;
  Options options_;
  Context context_;
  const Program& program_;  // of the range that the inputs lie in
  std::unique_ptr<Method> method_;
  Samples samples_;
  Profile result_;
  std::vector<double> device_us_;  // of runs without profiling
  bool on_device_ = false;
  double scale_ = 1;
};

}  // namespace

void check(const Options& o) {
  if (o.iterations < 0 || o.iterations > kMostIterations) {
    throw Error(Code::ARGUMENT, fmt::format("iterations must lie between 1 and {}", kMostIterations));
  }
  if (!(o.seconds > 0 && o.seconds <= 3600)) throw Error(Code::ARGUMENT, "seconds must lie between 0 and 3600");
  if (!(o.warm_up_s >= 0 && o.warm_up_s <= 600)) throw Error(Code::ARGUMENT, "the warm-up must take 0 to 600 seconds");
  if (o.contexts < 1 || o.contexts > 256) throw Error(Code::ARGUMENT, "there must be 1 to 256 contexts");
}

Profile profile(std::shared_ptr<const Engine> engine, std::span<const TensorView> inputs, const Options& options) {
  check(options);
  return Profiler(std::move(engine), inputs, options).run();
}

}  // namespace deepjit::profile
