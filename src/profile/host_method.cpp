// Stamps of the processor's clock around every step.
#include "profile/clock.h"
#include "profile/method.h"
#include "profile/statistics.h"

namespace deepjit::profile {

namespace {

struct Recorder final : Observer {
  struct Mark {
    const BoundStep* bound;  // nullptr: the innermost step that is on ends
    uint64_t at;
  };
  explicit Recorder(bool by_processor) : by_processor(by_processor) {}

  void begin_step(const Binding&, const BoundStep& bound) override {
    marks.push_back({&bound, 0});
    marks.back().at = stamp(by_processor);
  }
  void end_step(const Binding&, const BoundStep&) override { marks.push_back({nullptr, stamp(by_processor)}); }

  bool by_processor;
  std::vector<Mark> marks;
};

// Ticks of a step that does nothing, and between two of them.
Cost learn_cost(bool by_processor) {
  constexpr int kSteps = 2000;
  Recorder recorder(by_processor);
  recorder.marks.reserve(2 * kSteps);
  const Binding binding;
  const BoundStep bound;
  Observer* volatile observer = &recorder;  // called as a run calls it
  for (int i = 0; i < kSteps; ++i) {
    observer->begin_step(binding, bound);
    observer->end_step(binding, bound);
  }
  std::vector<double> inside, around;
  for (size_t i = 0; i + 2 < recorder.marks.size(); i += 2) {
    inside.push_back(static_cast<double>(recorder.marks[i + 1].at - recorder.marks[i].at));
    around.push_back(static_cast<double>(recorder.marks[i + 2].at - recorder.marks[i + 1].at));
  }
  return {times_of(inside).p50, times_of(around).p50};
}

class HostMethod final : public Method {
 public:
  HostMethod(Context& context, std::span<const TensorView> inputs)
      : context_(context),
        inputs_(inputs.begin(), inputs.end()),
        by_processor_(has_steady_stamps()),
        recorder_(by_processor_),
        ticks_(by_processor_),
        cost_(learn_cost(by_processor_)) {}

  std::string name() const override { return "clock"; }
  Cost cost() const override { return cost_; }
  double scale() const override { return 1 / ticks_.per_us(); }

  Timeline run() override {
    recorder_.marks.clear();
    context_.set_observer(&recorder_);
    const uint64_t start = stamp(by_processor_);
    try {
      context_.run(inputs_, outputs_);
    } catch (...) {
      context_.set_observer(nullptr);
      throw;
    }
    const uint64_t end = stamp(by_processor_);
    context_.set_observer(nullptr);
    return timeline(start, end);
  }

 private:
  Timeline timeline(uint64_t start, uint64_t end) {
    const Program& program = context_.engine().program_for(inputs_);
    Timeline line;
    line.wall_us = static_cast<double>(end - start);
    std::vector<size_t> on;
    for (const Recorder::Mark& mark : recorder_.marks) {
      const auto at = static_cast<double>(mark.at - start);
      if (mark.bound == nullptr) {
        line.spans[on.back()].end_us = at;
        on.pop_back();
        continue;
      }
      Span span;
      span.start_us = at;
      const Step* step = mark.bound->step;
      span.kind = step == nullptr ? Span::Kind::COPY_OUT : Span::Kind::STEP;
      if (step != nullptr) span.step = static_cast<int32_t>(step - program.steps.data());
      on.push_back(line.spans.size());
      line.spans.push_back(span);
    }
    return line;
  }

  Context& context_;
  std::vector<TensorView> inputs_;
  std::vector<TensorView> outputs_;
  bool by_processor_;
  Recorder recorder_;
  Ticks ticks_;
  Cost cost_;
};

}  // namespace

std::unique_ptr<Method> make_host_method(Context& context, std::span<const TensorView> inputs) {
  return std::make_unique<HostMethod>(context, inputs);
}

}  // namespace deepjit::profile
