#include "codegen/region/step_region.h"

#include <map>

#include "program/combo.h"

namespace deepjit {

namespace {

class StepReader {
 public:
  explicit StepReader(const Program& program) : program_(program) {}

  Region run(const Step& step) {
    if (step.op == kRegionOp) {
      for (int32_t buffer : step.inputs) region_.inputs.push_back(number(buffer));
      for (int32_t index : program_.blocks[static_cast<size_t>(step.blocks[0])].steps) {
        add(program_.steps[static_cast<size_t>(index)]);
      }
    } else {
      add_alone(step);
    }
    for (int32_t buffer : step.outputs) region_.outputs.push_back(number(buffer));
    return std::move(region_);
  }

 private:
  int new_value(int32_t buffer) {
    const Buffer* b = buffer < 0 ? nullptr : &program_.buffers[static_cast<size_t>(buffer)];
    region_.values.push_back(b == nullptr ? TensorType{} : b->type);
    region_.data.push_back(b != nullptr && b->constant.defined() ? &b->constant : nullptr);
    return static_cast<int>(region_.values.size()) - 1;
  }

  int number(int32_t buffer) {
    if (buffer < 0) return -1;
    const auto known = numbers_.find(buffer);
    return known != numbers_.end() ? known->second : numbers_[buffer] = new_value(buffer);
  }

  // A step that is no region: each of its operands is a value of its own, also when one buffer is two of them, or none
  // is given.
  void add_alone(const Step& step) {
    for (int32_t buffer : step.inputs) region_.inputs.push_back(new_value(buffer));
    add(step);
    RegionOp& op = region_.ops.back();
    for (size_t i = 0; i < op.inputs.size(); ++i) op.inputs[i] = step.inputs[i] < 0 ? -1 : region_.inputs[i];
  }

  void add(const Step& step) {
    RegionOp op;
    op.view.op = step.op;
    op.view.attrs = &step.attrs;
    for (int32_t buffer : step.inputs) {
      op.inputs.push_back(number(buffer));
      op.view.inputs.push_back(buffer < 0 ? TensorType{} : program_.buffers[static_cast<size_t>(buffer)].type);
      const bool known = buffer >= 0 && program_.buffers[static_cast<size_t>(buffer)].constant.defined();
      op.view.constants.push_back(known ? &program_.buffers[static_cast<size_t>(buffer)].constant : nullptr);
    }
    for (int32_t buffer : step.outputs) {
      op.view.outputs.push_back(buffer < 0 ? TensorType{} : program_.buffers[static_cast<size_t>(buffer)].type);
    }
    op.output = step.outputs.empty() ? -1 : number(step.outputs[0]);
    region_.ops.push_back(std::move(op));
  }

  const Program& program_;
  Region region_;
  std::map<int32_t, int> numbers_;
};

}  // namespace

Region region_of_step(const Program& program, const Step& step) { return StepReader(program).run(step); }

std::vector<ComboPart> parts_of_combo(const Program& program, const Step& step) {
  std::vector<ComboPart> parts;
  if (!is_combo(program, step)) return parts;
  std::map<int32_t, int64_t> operands;  // buffer -> operand
  for (int32_t b : step.inputs) operands.emplace(b, static_cast<int64_t>(operands.size()));
  check_internal(operands.size() == step.inputs.size(), "codegen: a combo reads a value twice");
  for (int32_t b : step.outputs) operands.emplace(b, static_cast<int64_t>(operands.size()));
  const std::vector<int32_t>& inside = program.blocks[static_cast<size_t>(step.blocks[0])].steps;
  for (size_t place = 0; place < inside.size(); ++place) {
    const Step& inner = program.steps[static_cast<size_t>(inside[place])];
    if (inner.op != kRegionOp) {  // a view
      operands[inner.outputs[0]] = operands.at(inner.inputs[0]);
      continue;
    }
    ComboPart part{place, &inner, {}};
    for (const auto* list : {&inner.inputs, &inner.outputs}) {
      for (int32_t b : *list) part.operands.push_back(operands.at(b));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace deepjit
