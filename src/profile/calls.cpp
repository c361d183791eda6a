#include "profile/calls.h"

#include <algorithm>

namespace deepjit::profile {

namespace {

std::string text_of(const TensorDesc& desc) { return std::string(dtype_name(desc.dtype)) + desc.dims.to_string(); }

std::vector<std::string> texts(const Binding& binding, const std::vector<int32_t>& buffers) {
  std::vector<std::string> list;
  for (int32_t b : buffers) list.push_back(b < 0 ? "-" : text_of(binding.slots[static_cast<size_t>(b)].desc));
  return list;
}

bool is_control(const Step& step) { return step.op != kRegionOp && !step.blocks.empty(); }

// Marks the steps inside of `region`, at any depth.
void mark_inside(const Program& program, const Step& region, std::vector<bool>& inside) {
  for (int32_t block : region.blocks) {
    for (int32_t index : program.blocks[static_cast<size_t>(block)].steps) {
      inside[static_cast<size_t>(index)] = true;
      mark_inside(program, program.steps[static_cast<size_t>(index)], inside);
    }
  }
}

}  // namespace

Calls::Calls(const Program& program) : program_(program), records_(program.steps.size() + 1) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    StepRecord& record = records_[i];
    record.step = static_cast<int32_t>(i);
    record.op = step.op;
    record.name = step.name;
    record.provider = is_control(step) ? "control" : step.tactic.provider;
    record.variant = is_control(step) ? "" : step.tactic.variant;
    record.origins = step.origins;
    record.time_at_build_us = step.tactic.time_us;
  }
  records_.back().op = "copy";
  records_.back().name = "outputs that are inputs or constants";
  records_.back().provider = "runtime";
}

void Calls::end_step(const Binding& binding, const BoundStep& bound) {
  StepRecord& record =
      bound.step == nullptr ? records_.back() : records_[static_cast<size_t>(bound.step - program_.steps.data())];
  const Work work = work_of(program_, binding, bound);
  ++record.calls;
  record.bytes += work.bytes;
  record.flops += work.flops;
  record.inputs = texts(binding, bound.inputs);
  record.outputs = texts(binding, bound.outputs);
  if (bound.step != nullptr && !is_control(*bound.step)) ++launches_;
}

std::vector<StepRecord> Calls::records() const {
  // Of a region, either it is launched or the steps inside are. What never runs is told by its outermost step.
  std::vector<bool> left_out(records_.size(), false);
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    if (step.op != kRegionOp) continue;
    std::vector<bool> inside(records_.size(), false);
    mark_inside(program_, step, inside);
    bool by_steps = false;
    for (size_t k = 0; k < program_.steps.size(); ++k) by_steps = by_steps || (inside[k] && records_[k].calls > 0);
    if (by_steps && records_[i].calls == 0) left_out[i] = true;
    for (size_t k = 0; k < program_.steps.size() && !left_out[i]; ++k) {
      if (inside[k] && records_[k].calls == 0) left_out[k] = true;
    }
  }
  std::vector<StepRecord> kept;
  for (size_t i = 0; i < records_.size(); ++i) {
    const bool copies = i == program_.steps.size();
    if (!left_out[i] && (!copies || records_[i].calls > 0)) kept.push_back(records_[i]);
  }
  return kept;
}

bool counts_by_arithmetic(const Program& program, const Step& step) {
  static const std::vector<std::string> words = {"MatMul", "Gemm", "Conv", "LSTM", "GRU", "RNN", "Attention", "Einsum"};
  if (step.op != kRegionOp) {
    return std::any_of(words.begin(), words.end(),
                       [&](const std::string& word) { return step.op.find(word) != std::string::npos; });
  }
  const std::vector<int32_t>& inside = program.blocks[static_cast<size_t>(step.blocks[0])].steps;
  return std::any_of(inside.begin(), inside.end(), [&](int32_t index) {
    return counts_by_arithmetic(program, program.steps[static_cast<size_t>(index)]);
  });
}

}  // namespace deepjit::profile
