// deepjit bench: latency percentiles, throughput, launches and memory of an engine or a model.
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "cli/run_flags.h"
#include "cli/text.h"
#include "cli/values.h"
#include "cli/verb.h"
#include "runtime/observer.h"

namespace deepjit::cli {

namespace {

using Clock = std::chrono::steady_clock;

struct BenchVerb {
  RunFlags flags;
  bool cold = false;
  bool check = false;

  int run();
};

struct Counter : Observer {
  size_t steps = 0;
  void begin_step(const Binding& /*binding*/, const BoundStep& bound) override {
    steps += bound.step != nullptr ? 1 : 0;
  }
};

// Larger than the caches it is to evict.
class CacheEvictor {
 public:
  void evict() {
    for (size_t i = 0; i < buffer_.size(); i += 64) buffer_[i] = static_cast<char>(buffer_[i] + 1);
  }

 private:
  std::vector<char> buffer_ = std::vector<char>(size_t{128} << 20);
};

constexpr size_t kMostReplays = 500;

struct Measured {
  std::vector<double> us;         // of every run of every context
  std::vector<double> device_us;  // of the launches alone, replayed on a device; empty on the CPU
  double wall_s = 0;              // of the timed part
  size_t launches = 0;
  size_t context_bytes = 0;  // of all contexts
  size_t device_bytes = 0;   // those of them on a device
  int threads = 0;           // of each context
  std::vector<Tensor> outputs;
};

// One context's part: warm-up, then timed runs until the count or the time is reached.
class Worker {
 public:
  Worker(const BenchVerb& verb, const Model& model, const std::vector<Tensor>& fed, int threads)
      : verb_(verb), context_(model.engine, threads), views_(views_of(fed)) {
    if (verb.cold) evictor_.emplace();
  }

  void warm_up() {
    Counter counter;
    context_.set_observer(&counter);
    context_.run(views_, outputs_);
    context_.set_observer(nullptr);
    context_.measure_device_time(true);
    launches_ = counter.steps;
    const double limit_s = std::min(0.5, verb_.flags.seconds / 4);
    const auto start = Clock::now();
    context_.run(views_, outputs_);
    context_.finish();  // with the graph that the others replay
    for (int i = 0; i < 3 || (i < 50 && seconds(start) < limit_s); ++i) context_.run(views_, outputs_);
  }

  void measure() {
    const auto start = Clock::now();
    const size_t wanted = static_cast<size_t>(verb_.flags.iterations);
    while (wanted > 0 ? us_.size() < wanted : us_.size() < 5 || seconds(start) < verb_.flags.seconds) {
      if (evictor_) evictor_->evict();
      const auto before = Clock::now();
      context_.run(views_, outputs_);
      us_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
    }
    if (context_.device_us() == 0) return;
    try {
      for (size_t i = 0; i < std::min(us_.size(), kMostReplays); ++i) device_us_.push_back(context_.replay_us());
    } catch (const Error& e) {
      if (e.code() != Code::STATE) throw;
      device_us_.clear();  // launches that no graph can hold
    }
  }

  void add_to(Measured& total) const {
    total.us.insert(total.us.end(), us_.begin(), us_.end());
    total.device_us.insert(total.device_us.end(), device_us_.begin(), device_us_.end());
    total.launches = launches_;
    total.context_bytes += context_.memory_bytes();
    total.device_bytes += context_.device_bytes();
    total.threads = context_.threads();
    if (!total.outputs.empty()) return;
    for (const TensorView& view : outputs_) total.outputs.push_back(owned_copy(view));
  }

 private:
  static double seconds(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

  const BenchVerb& verb_;
  Context context_;
  std::vector<TensorView> views_;
  std::vector<TensorView> outputs_;
  std::optional<CacheEvictor> evictor_;
  std::vector<double> us_;
  std::vector<double> device_us_;
  size_t launches_ = 0;
};

// Runs f(worker) for every worker in a thread of its own; the first failure is thrown.
template <typename F>
void in_threads(std::vector<std::unique_ptr<Worker>>& workers, F&& f) {
  if (workers.size() == 1) return f(*workers[0]);
  std::exception_ptr failure;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (auto& worker : workers) {
    threads.emplace_back([&failure, &mutex, &f, w = worker.get()] {
      try {
        f(*w);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

Measured measure(const BenchVerb& verb, const Model& model, const std::vector<Tensor>& fed) {
  std::vector<std::unique_ptr<Worker>> workers;
  const int threads = threads_per_context(verb.flags, model);
  for (int i = 0; i < verb.flags.contexts; ++i) workers.push_back(std::make_unique<Worker>(verb, model, fed, threads));
  in_threads(workers, [](Worker& worker) { worker.warm_up(); });
  const auto start = Clock::now();
  in_threads(workers, [](Worker& worker) { worker.measure(); });
  Measured total;
  total.wall_s = std::chrono::duration<double>(Clock::now() - start).count();
  for (const auto& worker : workers) worker->add_to(total);
  return total;
}

// The largest error of any output against the same model without passes or tuning.
double error_against_reference(const BenchVerb& verb, const std::vector<Tensor>& fed, const Measured& measured) {
  Progress progress;
  progress.line("checking against the reference");
  BuildFlags flags = verb.flags.build;
  flags.device = "cpu";
  flags.targets.clear();
  flags.level = 0;
  flags.no_tune = true;
  flags.lock.clear();
  flags.disabled.clear();
  const Model reference = build_model(verb.flags.model, flags.options(progress));
  Context context(reference.engine, flags.threads);
  std::vector<TensorView> expected;
  context.run(views_of(fed), expected);
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, relative_error(measured.outputs[i].view(), expected[i]));
  }
  return worst;
}

Json times_json(const std::vector<double>& p) { return {{"p50", p[0]}, {"p90", p[1]}, {"p95", p[2]}, {"p99", p[3]}}; }

int BenchVerb::run() {
  const std::string& model = flags.model;
  if (check && is_engine_file(model)) {
    throw Error(Code::ARGUMENT, "--check needs the ONNX model, \"" + model + "\" is an engine",
                "run deepjit bench M.onnx --check");
  }
  const Fed ready = open_and_feed(flags);
  const Model& loaded = ready.model;
  const std::vector<Tensor>& fed = ready.inputs;
  Measured measured = measure(*this, loaded, fed);
  Json error = nullptr;
  if (check) error = error_against_reference(*this, fed, measured);
  double busy_us = 0;
  for (double us : measured.us) busy_us += us;
  // With cold caches the time between runs belongs to the eviction.
  const double span_s = cold ? busy_us / 1e6 / flags.contexts : measured.wall_s;
  const auto runs = static_cast<double>(measured.us.size());
  const std::vector<double> p = percentiles(measured.us, {50, 90, 95, 99});
  const bool on_device = !measured.device_us.empty();
  const std::vector<double> d = on_device ? percentiles(measured.device_us, {50, 90, 95, 99}) : p;
  const auto side = loaded.engine->device_side();
  const size_t constants = side == nullptr ? loaded.constant_bytes : side->bytes();
  const size_t held = constants + (side == nullptr ? measured.context_bytes : measured.device_bytes);
  const std::vector<TensorView> views = views_of(fed);
  const MemoryNeeds needs = memory_needs(*loaded.engine, views, measured.threads);
  const size_t known = needs.constants + (needs.total() - needs.constants) * static_cast<size_t>(flags.contexts);
  const auto shape_of = shape_texts(loaded.program(), fed);
  const Program& program = loaded.engine->program_for(views);
  const bool several = !loaded.program().others.empty();
  const std::string range = several ? which_range(loaded.program(), program) : "";
  const auto on_host = program.metadata.find("build.host_steps");
  const std::string host = on_host == program.metadata.end() ? "" : on_host->second;
  if (flags.json) {
    print_json({{"model", model},
                {"device", loaded.engine->device_name()},
                {"precision", loaded.metadata("build.precision", "fp32")},
                {"shapes", shape_of},
                {"threads", measured.threads},
                {"device_us", times_json(d)},
                {"host_us", times_json(p)},
                {"throughput", runs / span_s},
                {"launches", measured.launches},
                {"host_steps", host},
                {"peak_bytes", known},
                {"held_bytes", held},
                {"build_s", loaded.built ? Json(loaded.build_s) : Json(nullptr)},
                {"load_s", loaded.load_s},
                {"max_rel_error", error}});
    return 0;
  }
  std::string shape_line;
  for (const auto& [name, text] : shape_of) shape_line += fmt::format("  {}={}", name, text.empty() ? "scalar" : text);
  fmt::print("model       {}\nshapes    {}\n", model, shape_line.empty() ? "  none" : shape_line);
  if (several) fmt::print("range       {}\n", range);
  fmt::print("setup       {} contexts, {} threads each, {} runs{}\n", flags.contexts, measured.threads,
             measured.us.size(), cold ? ", cold caches" : "");
  fmt::print("latency     P50 {}  P90 {}  P95 {}  P99 {}\n", time_text(p[0]), time_text(p[1]), time_text(p[2]),
             time_text(p[3]));
  if (on_device) {
    fmt::print("on {:<8} P50 {}  P90 {}  P95 {}  P99 {}, the launches alone\n", loaded.engine->device_name(),
               time_text(d[0]), time_text(d[1]), time_text(d[2]), time_text(d[3]));
  }
  if (!host.empty()) fmt::print("on the CPU  {}: times are of both sides together\n", host);
  fmt::print("throughput  {:.1f} runs/s\nlaunches    {} steps a run\n", runs / span_s, measured.launches);
  fmt::print("memory      {}: weights {}, contexts {}; {} known before\n", bytes_text(static_cast<double>(held)),
             bytes_text(static_cast<double>(constants)), bytes_text(static_cast<double>(held - constants)),
             bytes_text(static_cast<double>(known)));
  if (loaded.built) fmt::print("build       {:.2f} s\n", loaded.build_s);
  fmt::print("load        {:.1f} ms\n", loaded.load_s * 1e3);
  if (check) fmt::print("error       {:.2e} against the reference\n", error.get<double>());
  return 0;
}

}  // namespace

Verb add_bench(CLI::App& app) {
  auto verb = std::make_shared<BenchVerb>();
  CLI::App* command = app.add_subcommand("bench", "measure latency, throughput and memory");
  verb->flags.add_to(*command, 100'000'000);
  command->add_flag("--cold-l2", verb->cold, "evict the caches before each run");
  command->add_flag("--check", verb->check, "also compare the outputs with the reference");
  verb->flags.build.add_to(*command);
  command->footer("Example: deepjit bench m.dje --shapes x=1x3x224x224 --json");
  return {command, [verb] { return verb->run(); }};
}

}  // namespace deepjit::cli
