#include "kernels/reference/launch_region.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "kernels/reference/launch_sway.h"
#include "ops/op.h"

namespace deepjit {

namespace {

std::optional<Sway> sway_of(const Tactic& tactic) {
  const std::string word = kSwaying;
  if (tactic.variant.rfind(word, 0) != 0) return std::nullopt;
  return Sway(std::stoul(tactic.variant.substr(word.size())));
}

class RegionKernel final : public Kernel {
 public:
  RegionKernel(const StepShape& region, const Tactic& tactic)
      : tactic_(tactic), own_tactics_(tactic.variant == kStepByStep), sway_(sway_of(tactic)) {
    const Step& step = *region.step;
    inputs_ = step.inputs;
    outputs_ = step.outputs;
    for (const StepShape& shape : region.body) add(shape);
    for (size_t i = 0; sway_ && i < region.inputs.size(); ++i) {
      const TensorDesc& desc = region.inputs[i];
      const bool fixed = desc.dtype == DType::UNDEFINED || region.constants[i] != nullptr;  // a Resize's scales, say
      moved_.push_back(fixed ? Tensor() : Tensor(desc.dtype, desc.dims));
    }
  }

  size_t scratch_bytes() const override { return scratch_; }

  void run(const KernelArgs& args) override {
    for (size_t i = 0; i < inputs_.size(); ++i) addresses_[inputs_[i]] = args.inputs[i];
    for (size_t i = 0; i < moved_.size(); ++i) {
      if (moved_[i].defined()) addresses_[inputs_[i]] = moved_copy(moved_[i], args.inputs[i]);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) addresses_[outputs_[i]] = args.outputs[i];
    for (Inner& inner : steps_) {
      if (inner.view) {
        addresses_[inner.outputs[0]] = at(inner.inputs[0]);
        continue;
      }
      for (size_t i = 0; i < inner.inputs.size(); ++i) inner.in[i] = at(inner.shape->inputs[i]);
      for (size_t i = 0; i < inner.outputs.size(); ++i) inner.out[i] = at(inner.shape->outputs[i]);
      if (inner.kernel == nullptr) continue;
      launch(inner, args.scratch);
      if (sway_ && !inner.region) move_results(inner);
    }
  }

 private:
  struct Inner {
    const Step* shape = nullptr;
    std::unique_ptr<Kernel> kernel;  // nullptr: nothing to compute
    bool view = false;               // its operand's bytes, as in a run; not so when the region's readers want them
    bool region = false;             // of a combo
    std::vector<int32_t> inputs, outputs;
    std::vector<TensorDesc> results;  // while swaying
    std::vector<void*> in, out;
  };

  void* moved_copy(const Tensor& copy, const void* data) {
    if (copy.bytes() > 0) std::memcpy(copy.view().data, data, static_cast<size_t>(copy.bytes()));
    sway_->move(copy.view());
    return copy.view().data;
  }

  void move_results(const Inner& inner) {
    for (size_t i = 0; i < inner.results.size(); ++i) {
      const TensorDesc& desc = inner.results[i];
      if (inner.out[i] != nullptr) sway_->move({desc.dtype, desc.dims, inner.out[i]});
    }
  }

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
    inner.region = !shape.body.empty();
    if (sway_) inner.results = shape.outputs;
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
      if (inner.kernel == nullptr) inner.kernel = reference_launcher().make(shape, inner.region ? tactic_ : Tactic{});
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

  Tactic tactic_;
  bool own_tactics_;
  std::optional<Sway> sway_;
  std::vector<Tensor> moved_;  // the inputs, but constants
  std::vector<int32_t> inputs_, outputs_;
  std::vector<Inner> steps_;
  std::vector<Tensor> memory_;
  std::map<int32_t, void*> addresses_;
  size_t scratch_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_region_kernel(const StepShape& region, const Tactic& tactic) {
  return std::make_unique<RegionKernel>(region, tactic);
}

}  // namespace deepjit
