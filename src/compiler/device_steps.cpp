#include "compiler/device_steps.h"

#include <algorithm>

#include "codegen/region/region.h"

namespace deepjit {

namespace {

bool has_kernel(const Step& step) {
  return std::any_of(offerers().begin(), offerers().end(), [&](const Offerer* offerer) {
    return offerer->device() == "cuda" && offerer->name() == step.tactic.provider;
  });
}

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

std::string why(const Program& program, const BoundStep& bound) {
  if (bound.kind == BoundStep::Kind::CONTROL) return "control flow does not run on a device";
  if (bound.kind == BoundStep::Kind::DYNAMIC) return "its shapes or values are known only while running";
  const std::string reason = why_not_fusable(view_of(program, *bound.step)).reason;
  return reason.empty() ? "shapes that fit it are not known at build" : reason;
}

// Missing steps by what is to say of them; steps of one reason stand together.
class Missing {
 public:
  void add(const Step& step, const std::string& reason) {
    std::string& names = names_[step.op + ": " + reason];
    names += (names.empty() ? "\"" : ", \"") + step.name + "\"";
    ++count_;
  }
  size_t count() const { return count_; }
  std::string text() const {
    std::string all;
    for (const auto& [what, names] : names_) all += (all.empty() ? "" : "; ") + what + " (" + names + ")";
    return all;
  }

 private:
  std::map<std::string, std::string> names_;
  size_t count_ = 0;
};

}  // namespace

void check_device_steps(const Program& program, const std::string& device, const InputShapes& shapes,
                        const std::map<int32_t, std::string>& refused) {
  const ProgramInfo info(program);
  BindRequest request;
  request.make_kernels = false;
  for (size_t i = 0; i < shapes.size(); ++i) request.inputs.emplace_back(program.inputs[i].buffer, shapes[i]);
  std::unique_ptr<Binding> binding;
  try {
    binding = bind(info, request);
  } catch (const Error&) {
    return;
  }
  Missing missing;
  for (const BoundStep& bound : binding->steps) {
    if (bound.kind == BoundStep::Kind::COPY) continue;
    if (bound.kind == BoundStep::Kind::KERNEL && has_kernel(*bound.step)) continue;
    const auto told = refused.find(static_cast<int32_t>(bound.step - program.steps.data()));
    const bool ready = bound.kind == BoundStep::Kind::KERNEL && told != refused.end() && !told->second.empty();
    missing.add(*bound.step, ready ? told->second : why(program, bound));
  }
  if (missing.count() == 0) return;
  throw Error(Code::NO_DEVICE_KERNEL,
              "device " + device + " has no kernel for " + std::to_string(missing.count()) + " of " +
                  std::to_string(program.blocks[0].steps.size()) + " steps: " + missing.text(),
              "generated kernels are all that runs on " + device + " today; use --device cpu for this model");
}

}  // namespace deepjit
