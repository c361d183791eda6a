#include "kernels/reference/launch_region.h"

#include <algorithm>
#include <map>

#include "ops/op.h"

namespace deepjit {

namespace {

class RegionKernel final : public Kernel {
 public:
  RegionKernel(const StepShape& region, bool own_tactics) : own_tactics_(own_tactics) {
    const Step& step = *region.step;
    inputs_ = step.inputs;
    outputs_ = step.outputs;
    for (const StepShape& shape : region.body) add(shape);
  }

  size_t scratch_bytes() const override { return scratch_; }

  void run(const KernelArgs& args) override {
    for (size_t i = 0; i < inputs_.size(); ++i) addresses_[inputs_[i]] = args.inputs[i];
    for (size_t i = 0; i < outputs_.size(); ++i) addresses_[outputs_[i]] = args.outputs[i];
    for (Inner& inner : steps_) {
      if (inner.view) {
        addresses_[inner.outputs[0]] = at(inner.inputs[0]);
        continue;
      }
      for (size_t i = 0; i < inner.inputs.size(); ++i) inner.in[i] = at(inner.shape->inputs[i]);
      for (size_t i = 0; i < inner.outputs.size(); ++i) inner.out[i] = at(inner.shape->outputs[i]);
      if (inner.kernel != nullptr) launch(inner, args.scratch);
    }
  }

 private:
  struct Inner {
    const Step* shape = nullptr;
    std::unique_ptr<Kernel> kernel;  // nullptr: nothing to compute
    bool view = false;               // its operand's bytes, as in a run; not so when the region's readers want them
    std::vector<int32_t> inputs, outputs;
    std::vector<void*> in, out;
  };

  static void launch(const Inner& inner, void* scratch) {
    try {
      inner.kernel->run({inner.in.data(), inner.out.data(), scratch});
    } catch (const Error& e) {
      if (!inner.shape->blocks.empty()) throw;
      throw e.with_prefix("node \"" + inner.shape->name + "\" (" + inner.shape->op + "): ");
    }
  }

  void* at(int32_t buffer) const { return buffer < 0 ? nullptr : addresses_.at(buffer); }

  void add(const StepShape& shape) {
    Inner inner;
    inner.shape = shape.step;
    inner.inputs = shape.step->inputs;
    inner.outputs = shape.step->outputs;
    inner.in.resize(inner.inputs.size());
    inner.out.resize(inner.outputs.size());
    for (size_t i = 0; i < inner.inputs.size(); ++i) {
      const bool given = std::count(inputs_.begin(), inputs_.end(), inner.inputs[i]) != 0;
      if (inner.inputs[i] < 0 || given || addresses_.count(inner.inputs[i]) != 0) continue;
      check_internal(shape.constants[i] != nullptr, "a region reads a value that it does not get");
      addresses_[inner.inputs[i]] = shape.constants[i]->view().data;
    }
    const bool read_outside = std::count(outputs_.begin(), outputs_.end(), inner.outputs[0]) != 0;
    inner.view = find_op(shape.step->op).view && inner.outputs[0] >= 0 && !read_outside;
    bool empty = inner.view;
    if (inner.view) addresses_[inner.outputs[0]] = nullptr;  // known in run()
    if (!inner.view) empty = allocate(shape, inner);
    if (!empty) {
      const Launcher* launcher = find_launcher(shape.step->tactic.provider);
      if (own_tactics_ && launcher != nullptr) inner.kernel = launcher->make(shape, shape.step->tactic);
      if (inner.kernel == nullptr) inner.kernel = reference_launcher().make(shape, Tactic{});
      scratch_ = std::max(scratch_, inner.kernel->scratch_bytes());
    }
    steps_.push_back(std::move(inner));
  }

  // Memory for what the step writes; true when that is nothing.
  bool allocate(const StepShape& shape, const Inner& inner) {
    bool empty = true;
    for (size_t i = 0; i < inner.outputs.size(); ++i) {
      if (inner.outputs[i] < 0) continue;
      empty = empty && shape.outputs[i].count() == 0;
      memory_.emplace_back(shape.outputs[i].dtype, shape.outputs[i].dims);
      addresses_[inner.outputs[i]] = memory_.back().view().data;
    }
    return empty;
  }

  bool own_tactics_;
  std::vector<int32_t> inputs_, outputs_;
  std::vector<Inner> steps_;
  std::vector<Tensor> memory_;
  std::map<int32_t, void*> addresses_;
  size_t scratch_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_region_kernel(const StepShape& region, bool own_tactics) {
  return std::make_unique<RegionKernel>(region, own_tactics);
}

}  // namespace deepjit
