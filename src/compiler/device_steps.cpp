#include "compiler/device_steps.h"

#include <algorithm>
#include <chrono>

#include "base/limits.h"
#include "codegen/region/region.h"
#include "kernels/provider_side.h"
#include "ops/op.h"
#include "tune/candidate.h"
#include "tune/verify.h"

namespace deepjit {

namespace {

const std::vector<int32_t>& steps_inside(const Program& program, int32_t block) {
  return program.blocks[static_cast<size_t>(block)].steps;
}

bool has_device_tactic(const Step& step) { return !runs_on_cpu(step.tactic.provider); }

// The steps of bodies that always run on the host: of Loop and Scan, and of an If that a run decides.
class Bodies {
 public:
  explicit Bodies(const Program& program) : program_(program), known_(program.buffers.size(), false) {
    for (size_t i = 0; i < program.buffers.size(); ++i) known_[i] = program.buffers[i].is_constant;
    const ProgramInfo info(program);
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      const auto buffer = static_cast<size_t>(program.inputs[i].buffer);
      if (info.by_value[i] && is_small(program.buffers[buffer].type)) known_[buffer] = true;
    }
    walk(0);
  }
  const std::set<int32_t>& steps() const { return steps_; }
  // An If of this kind is decided when shapes are bound.
  bool decides(int32_t step) const { return decided_.count(step) != 0; }

 private:
  // May a binding hold the input's value? See Context::by_value.
  static bool is_small(const TensorType& type) {
    if (is_object(type.dtype) || !type.shape.ranked() || type.shape.rank() > 1) return false;
    const auto count = type.shape.count().as_const();
    return !count || *count <= limits::value_elements;
  }

  bool known(int32_t buffer) const { return buffer < 0 || known_[static_cast<size_t>(buffer)]; }
  void set_known(int32_t buffer) {
    if (buffer >= 0) known_[static_cast<size_t>(buffer)] = true;
  }

  void walk(int32_t block) {
    for (int32_t index : steps_inside(program_, block)) {
      const Step& step = program_.steps[static_cast<size_t>(index)];
      if (step.op == kRegionOp) {
        walk(step.blocks[0]);
      } else if (step.op == "If" && known(step.inputs[0])) {
        decided_.insert(index);
        for (int32_t body : step.blocks) walk(body);
        for (size_t i = 0; i < step.outputs.size(); ++i) {
          const bool both = std::all_of(step.blocks.begin(), step.blocks.end(), [&](int32_t body) {
            return known(program_.blocks[static_cast<size_t>(body)].outputs[i]);
          });
          if (both) set_known(step.outputs[i]);
        }
      } else if (!step.blocks.empty()) {
        for (int32_t body : step.blocks) add(body);
      } else if (is_known(step)) {
        for (int32_t buffer : step.outputs) set_known(buffer);
      }
    }
  }

  // Known when shapes are bound.
  bool is_known(const Step& step) const {
    if (step.op == "Shape" || step.op == "Size") return true;
    return find_op(step.op).deterministic &&
           std::all_of(step.inputs.begin(), step.inputs.end(), [&](int32_t b) { return known(b); });
  }

  void add(int32_t block) {
    for (int32_t index : steps_inside(program_, block)) {
      steps_.insert(index);
      for (int32_t inner : program_.steps[static_cast<size_t>(index)].blocks) add(inner);
    }
  }

  const Program& program_;
  std::vector<bool> known_;  // buffers
  std::set<int32_t> steps_;
  std::set<int32_t> decided_;
};

TuneOptions options_of_host(const TuneOptions& device) {
  TuneOptions host = device;
  host.device = "cpu";
  host.present = nullptr;
  host.measure = true;
  host.architectures.clear();
  return host;
}

// Is a tactic of the CPU asked for that this step offers?
bool is_forced_to_host(const Program& program, const TuneTask& task, const TuneOptions& host) {
  const std::string provider = host.force_tactic.substr(0, host.force_tactic.find(':'));
  for (const Offerer* offerer : offerers()) {
    if (provider.empty() || offerer->name() != provider || offerer->device() != "cpu") continue;
    const Offer offer = offerer->offer(shape_of(program, task, host));
    return std::any_of(offer.tactics.begin(), offer.tactics.end(), [&](const Tactic& tactic) {
      return tactic_name(tactic) == host.force_tactic || tactic.provider == host.force_tactic;
    });
  }
  return false;
}

// Has any step inside a region, or inside the regions of a combo, a kernel of the device?
bool any_on_device(const Program& program, const Step& region) {
  if (region.op != kRegionOp) return false;
  const std::vector<int32_t>& inside = steps_inside(program, region.blocks[0]);
  return std::any_of(inside.begin(), inside.end(), [&](int32_t index) {
    const Step& step = program.steps[static_cast<size_t>(index)];
    return has_device_tactic(step) || any_on_device(program, step);
  });
}

}  // namespace

TuneReport tune_both_sides(Program& program, const std::vector<TuneTask>& tasks, const TuneOptions& options,
                           bool tune_host, TuneReport before) {
  const auto start = std::chrono::steady_clock::now();
  const Bodies bodies(program);
  TuneOptions host_options = options_of_host(options);
  std::vector<TuneTask> device, host;
  for (const TuneTask& task : tasks) {
    const bool on_host = bodies.steps().count(task.step) != 0 || is_forced_to_host(program, task, host_options);
    (on_host ? host : device).push_back(task);
  }
  TuneReport report = tune(program, device, options, std::move(before));
  for (TuneTask& task : device) {
    const Step& step = program.steps[static_cast<size_t>(task.step)];
    if (report.refused.count(task.step) == 0 || any_on_device(program, step)) continue;
    if (step.op != kRegionOp && find_op(step.op).view) continue;  // costs nothing, on either side
    report.unfused.erase(task.step);
    host.push_back(std::move(task));
  }
  if (host.empty() || !tune_host) return report;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (options.budget_s > 0) host_options.budget_s = std::max(1e-9, options.budget_s - spent.count());
  return tune(program, host, host_options, std::move(report));
}

namespace {

OpView view_of(const Program& program, const Step& step) {
  OpView view;
  view.op = step.op;
  view.attrs = &step.attrs;
  const auto type = [&](int32_t b) { return b < 0 ? TensorType{} : program.buffers[static_cast<size_t>(b)].type; };
  for (int32_t b : step.inputs) {
    view.inputs.push_back(type(b));
    const bool known = b >= 0 && program.buffers[static_cast<size_t>(b)].constant.defined();
    view.constants.push_back(known ? &program.buffers[static_cast<size_t>(b)].constant : nullptr);
  }
  for (int32_t b : step.outputs) view.outputs.push_back(type(b));
  return view;
}

class Finder {
 public:
  Finder(const Program& program, const std::map<int32_t, std::string>& refused)
      : program_(program), refused_(refused), bodies_(program) {}

  HostSteps run(const Binding& binding) {
    for (const BoundStep& bound : binding.steps) {
      if (bound.step == nullptr) continue;
      const auto index = static_cast<int32_t>(bound.step - program_.steps.data());
      if (bound.kind == BoundStep::Kind::DYNAMIC) {
        add(index, "its shapes or values are known only while running");
      } else if (bound.kind == BoundStep::Kind::CONTROL) {
        add_control(index);
      } else {
        add(index);
      }
    }
    return std::move(found_);
  }

 private:
  const Step& step_at(int32_t index) const { return program_.steps[static_cast<size_t>(index)]; }

  void add(int32_t index) {
    if (has_device_tactic(step_at(index))) {
      ++found_.all;
      note(index, nullptr);
    } else {
      add(index, why(index));
    }
  }

  void add(int32_t index, const std::string& reason) {
    ++found_.all;
    found_.steps.push_back(index);
    note(index, &reason);
  }

  // Also for what stands inside. No reason: it runs on the device.
  void note(int32_t index, const std::string* reason) {
    if (reason == nullptr)
      found_.on_device.insert(index);
    else
      found_.reasons[index] = *reason;
    for (int32_t block : step_at(index).blocks) {
      for (int32_t inner : steps_inside(program_, block)) note(inner, reason);
    }
  }

  void add_control(int32_t index) {
    const Step& step = step_at(index);
    if (!bodies_.decides(index)) return add(index, "control flow runs on the host");
    for (int32_t block : step.blocks) add_branch(block);
  }

  // Of an If that is decided when shapes are bound: its steps, one by one.
  void add_branch(int32_t block) {
    for (int32_t index : steps_inside(program_, block)) {
      const Step& step = step_at(index);
      if (step.op == kRegionOp && !has_device_tactic(step) && step.tactic.provider == reference_launcher().name()) {
        add_branch(step.blocks[0]);
      } else if (step.op != kRegionOp && !step.blocks.empty()) {
        add_control(index);
      } else if (step.op == kRegionOp || (!find_op(step.op).view && refused_.count(index) != 0)) {
        add(index);
      } else if (has_device_tactic(step)) {
        add(index);
      }
    }
  }

  std::string why(int32_t index) const {
    if (const auto told = refused_.find(index); told != refused_.end() && !told->second.empty()) return told->second;
    const Step& step = step_at(index);
    if (step.op == kRegionOp) return "the device has no kernel for it";
    const std::string reason = why_not_fusable(view_of(program_, step)).reason;
    return reason.empty() ? "the device has no kernel for it at these shapes" : reason;
  }

  const Program& program_;
  const std::map<int32_t, std::string>& refused_;
  Bodies bodies_;
  HostSteps found_;
};

// Steps by what is to say of them; steps of one reason stand together.
class Groups {
 public:
  void add(const Step& step, const std::string& reason) {
    std::string& names = names_[step.op + ": " + reason];
    names += (names.empty() ? "\"" : ", \"") + step.name + "\"";
  }
  std::string text() const {
    std::string all;
    for (const auto& [what, names] : names_) all += (all.empty() ? "" : "; ") + what + " (" + names + ")";
    return all;
  }

 private:
  std::map<std::string, std::string> names_;
};

}  // namespace

HostSteps find_host_steps(const Program& program, const InputShapes& shapes,
                          const std::map<int32_t, std::string>& refused) {
  const ProgramInfo info(program);
  BindRequest request;
  request.make_kernels = false;
  for (size_t i = 0; i < shapes.size(); ++i) request.inputs.emplace_back(program.inputs[i].buffer, shapes[i]);
  std::unique_ptr<Binding> binding;
  try {
    binding = bind(info, request);
  } catch (const Error&) {
    return {};
  }
  return Finder(program, refused).run(*binding);
}

std::string HostSteps::summary(const Program& program) const {
  if (steps.empty()) return "";
  std::map<std::string, size_t> by_op;
  for (int32_t index : steps) ++by_op[program.steps[static_cast<size_t>(index)].op];
  std::string ops;
  for (const auto& [op, count] : by_op) ops += (ops.empty() ? "" : ", ") + op + " (" + std::to_string(count) + ")";
  return std::to_string(steps.size()) + " of " + std::to_string(all) + " steps: " + ops;
}

void refuse_host_steps(const Program& program, const HostSteps& host, const std::string& device) {
  if (host.steps.empty()) return;
  Groups groups;
  for (int32_t index : host.steps) groups.add(program.steps[static_cast<size_t>(index)], host.reasons.at(index));
  throw Error(Code::NO_DEVICE_KERNEL,
              "device " + device + " has no kernel for " + std::to_string(host.steps.size()) + " of " +
                  std::to_string(host.all) + " steps: " + groups.text(),
              "without --device-only these steps run on the CPU");
}

}  // namespace deepjit
