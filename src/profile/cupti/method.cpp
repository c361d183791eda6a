// CUPTI's records of kernels and copies, while graphs are replayed as in any other run.
#include "profile/method.h"

#include <chrono>
#include <map>

#include "profile/cupti/match.h"

namespace deepjit::profile {

namespace {

using cupti::Activity;
using cupti::Launched;
using cupti::Recorder;

// Learns what each step and copy of a run launches, by waiting after each of them.
struct Learner final : Observer {
  Learner(const Program& program, Recorder& recorder) : program(program), recorder(recorder) {}

  void begin_step(const Binding& binding, const BoundStep&) override { begin(binding.device); }
  void end_step(const Binding& binding, const BoundStep& bound) override {
    const bool copy = bound.step == nullptr;
    const auto step = copy ? -1 : static_cast<int32_t>(bound.step - program.steps.data());
    const size_t before = launched.size();
    end(binding.device, copy ? Span::Kind::COPY_OUT : Span::Kind::STEP, step);
    if (!copy && launched.size() == before) on_host = bound.step->name;
  }
  void begin_copy(Copy, const DeviceUse& use) override { begin(&use); }
  void end_copy(Copy way, const DeviceUse& use) override {
    end(&use, way == Copy::IN ? Span::Kind::COPY_IN : Span::Kind::COPY_OUT, kInputsAndOutputs);
  }

  void begin(const DeviceUse* use) {
    if (use == nullptr) return;
    use->stream->synchronize();
    recorder.take();
  }
  void end(const DeviceUse* use, Span::Kind part, int32_t step) {
    if (use == nullptr) return;
    use->stream->synchronize();
    for (const Activity& a : recorder.take()) {
      launched.push_back({a.kind, a.name, part, step});
      stream = a.stream;
    }
  }

  const Program& program;
  Recorder& recorder;
  std::vector<Launched> launched;
  std::string on_host;  // a step that launched nothing: of its time CUPTI knows nothing
  uint32_t stream = 0;
};

class CuptiMethod final : public Method {
 public:
  CuptiMethod(std::shared_ptr<const Engine> engine, std::span<const TensorView> inputs, int threads)
      : context_(std::move(engine), threads), inputs_(inputs.begin(), inputs.end()) {
    Learner learner(context_.engine().program_for(inputs_), recorder_);
    context_.run(inputs_, outputs_);
    context_.finish();  // with the graph that later runs replay
    context_.set_observer(&learner);
    context_.run(inputs_, outputs_);
    context_.set_observer(nullptr);
    if (!learner.on_host.empty()) {
      throw Error(Code::STATE, "step \"" + learner.on_host + "\" runs on the host, where CUPTI does not see it");
    }
    launched_ = std::move(learner.launched);
    stream_ = learner.stream;
    for (Launched& one : launched_) name_of_.push_back(number_of(one.name));
    recorder_.take();
    run();  // whether the order is the same
  }

  std::string name() const override { return "cupti"; }
  bool mixes() const override { return false; }
  std::vector<std::string> kernels() const override { return names_; }

  std::map<int32_t, double> launches() const override {
    std::map<int32_t, double> counts;
    for (const Launched& one : launched_) ++counts[one.step];
    return counts;
  }

  Timeline run() override {
    const uint64_t start_ns = recorder_.now_ns();
    const auto start = std::chrono::steady_clock::now();
    context_.run(inputs_, outputs_);
    const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - start;
    std::vector<Activity> activities = recorder_.take();
    std::erase_if(activities, [&](const Activity& a) { return a.stream != stream_; });
    std::string why;
    if (!cupti::matches(launched_, activities, why)) throw Error(Code::STATE, why);
    return timeline(activities, start_ns, wall.count());
  }

 private:
  int32_t number_of(const std::string& name) {
    if (name.empty()) return -1;
    const auto [found, fresh] = numbers_.try_emplace(name, static_cast<int32_t>(names_.size()));
    if (fresh) names_.push_back(name);
    return found->second;
  }

  Timeline timeline(const std::vector<Activity>& activities, uint64_t start_ns, double wall_us) {
    Timeline line;
    line.wall_us = wall_us;
    line.on_device = true;
    if (activities.empty()) return line;
    uint64_t end_ns = 0;
    for (const Activity& a : activities) end_ns = std::max(end_ns, a.end_ns);
    // The clocks of host and device agree to a few microseconds; the device's work lies inside the run.
    double shift = (static_cast<double>(activities[0].start_ns) - static_cast<double>(start_ns)) / 1000;
    const double busy = static_cast<double>(end_ns - activities[0].start_ns) / 1000;
    shift = std::max(0.0, std::min(shift, wall_us - busy));
    for (size_t i = 0; i < activities.size(); ++i) {
      const auto at = [&](uint64_t ns) { return shift + static_cast<double>(ns - activities[0].start_ns) / 1000; };
      const Activity& a = activities[i];
      line.spans.push_back({launched_[i].part, launched_[i].step, name_of_[i], at(a.start_ns), at(a.end_ns)});
    }
    return line;
  }

  Recorder recorder_;  // before the context: it must see the graph being made
  Context context_;
  std::vector<TensorView> inputs_;
  std::vector<TensorView> outputs_;
  std::vector<Launched> launched_;
  std::vector<int32_t> name_of_;
  std::vector<std::string> names_;
  std::map<std::string, int32_t> numbers_;
  uint32_t stream_ = 0;
};

}  // namespace

std::unique_ptr<Method> make_cupti_method(std::shared_ptr<const Engine> engine, std::span<const TensorView> inputs,
                                          int threads) {
  return std::make_unique<CuptiMethod>(std::move(engine), inputs, threads);
}

}  // namespace deepjit::profile
