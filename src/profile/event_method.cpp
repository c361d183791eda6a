// Events of the device around every step and copy: needs nothing but the driver, but no graph can be replayed.
#include <chrono>

#include "profile/method.h"

namespace deepjit::profile {

namespace {

// Keeps its events from run to run.
struct EventRecorder final : Observer {
  struct Mark {
    Span::Kind kind;
    int32_t step;
    bool begins;
  };

  explicit EventRecorder(const Program& program) : program(program) {}

  void begin_step(const Binding& binding, const BoundStep& bound) override { mark_step(binding, bound, true); }
  void end_step(const Binding& binding, const BoundStep& bound) override { mark_step(binding, bound, false); }
  void begin_copy(Copy way, const DeviceUse& use) override { mark(use, kind_of(way), kInputsAndOutputs, true); }
  void end_copy(Copy way, const DeviceUse& use) override { mark(use, kind_of(way), kInputsAndOutputs, false); }

  static Span::Kind kind_of(Copy way) { return way == Copy::IN ? Span::Kind::COPY_IN : Span::Kind::COPY_OUT; }

  void mark_step(const Binding& binding, const BoundStep& bound, bool begins) {
    if (binding.device == nullptr) return;
    const Step* step = bound.step;
    if (step == nullptr) return mark(*binding.device, Span::Kind::COPY_OUT, -1, begins);
    mark(*binding.device, Span::Kind::STEP, static_cast<int32_t>(step - program.steps.data()), begins);
  }

  void mark(const DeviceUse& use, Span::Kind kind, int32_t step, bool begins) {
    if (marks.size() == events.size()) events.push_back(use.device->make_event());
    use.stream->record(*events[marks.size()]);
    marks.push_back({kind, step, begins});
    device = use.device;
  }

  const Program& program;
  device::Device* device = nullptr;
  std::vector<std::unique_ptr<device::Event>> events;
  std::vector<Mark> marks;
};

class EventMethod final : public Method {
 public:
  EventMethod(Context& context, std::span<const TensorView> inputs)
      : context_(context), inputs_(inputs.begin(), inputs.end()), recorder_(context.engine().program_for(inputs)) {}

  std::string name() const override { return "events"; }

  Timeline run() override {
    recorder_.marks.clear();
    context_.set_observer(&recorder_);
    const auto start = std::chrono::steady_clock::now();
    try {
      context_.run(inputs_, outputs_);
    } catch (...) {
      context_.set_observer(nullptr);
      throw;
    }
    const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - start;
    context_.set_observer(nullptr);
    return timeline(wall.count());
  }

 private:
  // The device's clock starts with the first event; the host cannot tell when that was, and so the trace puts what
  // passed outside of the device's work in front of it.
  Timeline timeline(double wall_us) {
    Timeline line;
    line.wall_us = wall_us;
    line.on_device = true;
    const std::vector<EventRecorder::Mark>& marks = recorder_.marks;
    if (marks.empty()) return line;
    std::vector<double> at(marks.size(), 0);
    for (size_t i = 1; i < marks.size(); ++i) {
      at[i] = recorder_.device->elapsed_us(*recorder_.events[0], *recorder_.events[i]);
    }
    const double shift = std::max(0.0, wall_us - at.back());
    std::vector<size_t> on;
    for (size_t i = 0; i < marks.size(); ++i) {
      if (marks[i].begins) {
        on.push_back(line.spans.size());
        line.spans.push_back({marks[i].kind, marks[i].step, -1, at[i] + shift, 0});
      } else {
        line.spans[on.back()].end_us = at[i] + shift;
        on.pop_back();
      }
    }
    return line;
  }

  Context& context_;
  std::vector<TensorView> inputs_;
  std::vector<TensorView> outputs_;
  EventRecorder recorder_;
};

}  // namespace

std::unique_ptr<Method> make_event_method(Context& context, std::span<const TensorView> inputs) {
  return std::make_unique<EventMethod>(context, inputs);
}

}  // namespace deepjit::profile
