#include "profile/work.h"

#include <algorithm>
#include <unordered_map>

#include "ops/work.h"
#include "runtime/bound_ops.h"

namespace deepjit::profile {

namespace {

double count(const TensorDesc& desc) {
  return desc.dtype == DType::UNDEFINED || is_object(desc.dtype) ? 0 : static_cast<double>(desc.count());
}

double bytes(const TensorDesc& desc) {
  return count(desc) * (desc.dtype == DType::UNDEFINED ? 0 : static_cast<double>(dtype_size(desc.dtype)));
}

TensorDesc desc_of(const Binding& binding, int32_t buffer) {
  return buffer < 0 ? TensorDesc{} : binding.slots[static_cast<size_t>(buffer)].desc;
}

// The shapes inside a region, which no slot holds.
class Inside {
 public:
  Inside(const Program& program, const Binding& binding) : program_(program), binding_(binding) {}

  double flops(const Step& region) {
    for (int32_t buffer : region.inputs) enter(buffer);
    return of_block(region.blocks[0]);
  }

 private:
  void enter(int32_t buffer) {
    if (buffer < 0 || states_.count(buffer) != 0) return;
    BufferState state;
    const Tensor& constant = program_.buffers[static_cast<size_t>(buffer)].constant;
    if (auto known = binding_.known.find(buffer); known != binding_.known.end()) {
      state.known = known->second;
    } else if (constant.defined()) {
      state.known = constant;
    }
    const TensorDesc desc = state.known.defined() ? state.known.view().desc() : desc_of(binding_, buffer);
    state.type = {desc.dtype, Shape(desc.dims)};
    state.available = true;
    states_[buffer] = std::move(state);
  }

  double of_block(int32_t block) {
    double total = 0;
    for (int32_t index : program_.blocks[static_cast<size_t>(block)].steps) {
      const Step& step = program_.steps[static_cast<size_t>(index)];
      for (int32_t buffer : step.inputs) enter(buffer);
      total += step.op == kRegionOp ? of_block(step.blocks[0]) : of_step(step);
    }
    return total;
  }

  double of_step(const Step& step) {
    std::vector<const BufferState*> inputs;
    std::vector<TensorDesc> in, out;
    for (int32_t buffer : step.inputs) {
      inputs.push_back(buffer < 0 ? nullptr : &states_[buffer]);
      in.push_back(buffer < 0 ? TensorDesc{} : concrete(states_[buffer].type));
    }
    const std::vector<InferredOutput> inferred = infer_step(step, inputs, next_symbol_);
    for (size_t i = 0; i < inferred.size(); ++i) {
      const bool made = step.outputs[i] >= 0;
      out.push_back(made ? concrete(inferred[i].type) : TensorDesc{});
      if (made) states_[step.outputs[i]] = {inferred[i].type, inferred[i].known(), true};
    }
    return flops_of(step.op, step.attrs, in, out);
  }

  static TensorDesc concrete(const TensorType& type) {
    const auto dims = type.shape.as_const();
    return dims ? TensorDesc{type.dtype, *dims} : TensorDesc{};
  }

  const Program& program_;
  const Binding& binding_;
  std::unordered_map<int32_t, BufferState> states_;
  int64_t next_symbol_ = 1;
};

double bytes_of(const Binding& binding, const BoundStep& bound) {
  double total = 0;
  double written = 0;
  for (int32_t buffer : bound.outputs) written += bytes(desc_of(binding, buffer));
  for (size_t i = 0; i < bound.inputs.size(); ++i) {
    const auto first = bound.inputs.begin();
    if (std::find(first, first + static_cast<std::ptrdiff_t>(i), bound.inputs[i]) !=
        first + static_cast<std::ptrdiff_t>(i))
      continue;
    const double read = bytes(desc_of(binding, bound.inputs[i]));
    total += i == 0 && bound.step != nullptr && reads_a_part(bound.step->op) ? std::min(read, written) : read;
  }
  return total + written;
}

}  // namespace

Work work_of(const Program& program, const Binding& binding, const BoundStep& bound) {
  Work work;
  if (bound.kind == BoundStep::Kind::CONTROL) return work;
  work.bytes = bytes_of(binding, bound);
  if (bound.step == nullptr) return work;
  if (bound.step->op == kRegionOp) {
    try {
      work.flops = Inside(program, binding).flops(*bound.step);
    } catch (const Error&) {  // its kernel takes shapes that the steps would not
    }
    return work;
  }
  std::vector<TensorDesc> in, out;
  for (int32_t buffer : bound.inputs) in.push_back(desc_of(binding, buffer));
  for (int32_t buffer : bound.outputs) out.push_back(desc_of(binding, buffer));
  work.flops = flops_of(bound.step->op, bound.step->attrs, in, out);
  return work;
}

}  // namespace deepjit::profile
