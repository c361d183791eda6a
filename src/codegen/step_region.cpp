#include "codegen/step_region.h"

#include <map>

namespace deepjit {

namespace {

class StepReader {
 public:
  explicit StepReader(const Program& program) : program_(program) {}

  Region run(const Step& whole) {
    for (int32_t buffer : whole.inputs) region_.inputs.push_back(number(buffer));
    if (whole.op != kRegionOp) {
      add(whole);
    } else {
      for (int32_t index : program_.blocks[static_cast<size_t>(whole.blocks[0])].steps) {
        add(program_.steps[static_cast<size_t>(index)]);
      }
    }
    for (int32_t buffer : whole.outputs) region_.outputs.push_back(number(buffer));
    return std::move(region_);
  }

 private:
  int number(int32_t buffer) {
    if (buffer < 0) return -1;
    const auto [it, fresh] = numbers_.emplace(buffer, static_cast<int>(region_.values.size()));
    if (fresh) {
      const Buffer& b = program_.buffers[static_cast<size_t>(buffer)];
      region_.values.push_back(b.type);
      region_.data.push_back(b.constant.defined() ? &b.constant : nullptr);
    }
    return it->second;
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

}  // namespace deepjit
