// What check_program refuses: programs that parse and whose hashes hold, but that the runtime must not trust.
#include "engine/check.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "graph/parse.h"
#include "lower/lower.h"
#include "runtime/engine.h"

namespace deepjit {
namespace {

Program branching() {
  return lower(*parse_graph(R"(graph @main(%x: float32[N,4], %c: bool[]) -> (%y) {
    %w = constant float32[4] [1, 2, 3, 4]
    %r = If(%c) then {
      %a = Mul(%x, %w)
      -> (%a)
    } else {
      %b = Add(%x, %w)
      -> (%b)
    }
    %y = Relu(%r)
  })"));
}

Code code_of(const Program& program) {
  try {
    check_program(program);
    return Code::OK;
  } catch (const Error& e) {
    return e.code();
  }
}

template <typename F>
Code damaged(F&& damage) {
  Program program = branching();
  damage(program);
  return code_of(program);
}

int32_t buffer_of(const Program& p, const std::string& name) {
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    if (p.buffers[i].name == name) return static_cast<int32_t>(i);
  }
  ADD_FAILURE() << name;
  return 0;
}

Step& step_of(Program& p, const std::string& op) {
  for (Step& step : p.steps) {
    if (step.op == op) return step;
  }
  ADD_FAILURE() << op;
  return p.steps[0];
}

TEST(CheckProgram, TakesWhatWasLowered) { EXPECT_EQ(code_of(branching()), Code::OK); }

TEST(CheckProgram, ConstantsAreNotWritten) {
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "Relu").outputs[0] = buffer_of(p, "w"); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.blocks[0].inputs[0] = p.inputs[0].buffer = buffer_of(p, "w"); }),
            Code::ENGINE_RANGE);
}

TEST(CheckProgram, BuffersAreWrittenOnceAndThenRead) {
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "Relu").outputs[0] = buffer_of(p, "r"); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "Relu").outputs[0] = buffer_of(p, "x"); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "Relu").inputs[0] = buffer_of(p, "y"); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "Relu").inputs[0] = buffer_of(p, "a"); }), Code::ENGINE_RANGE)
      << "a value of a body";
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "Add").inputs[0] = buffer_of(p, "a"); }), Code::ENGINE_RANGE)
      << "a value of the other branch";
  EXPECT_EQ(damaged([](Program& p) { std::reverse(p.blocks[0].steps.begin(), p.blocks[0].steps.end()); }),
            Code::ENGINE_RANGE);
}

TEST(CheckProgram, ConstantsHaveData) {
  EXPECT_EQ(damaged([](Program& p) { p.buffers[static_cast<size_t>(buffer_of(p, "w"))].constant = Tensor(); }),
            Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.buffers[static_cast<size_t>(buffer_of(p, "w"))].type.dtype = DType::INT32; }),
            Code::ENGINE_RANGE);
}

TEST(CheckProgram, ControlStepsFitTheirBodies) {
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "If").inputs.clear(); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "If").inputs[0] = -1; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "If").blocks.pop_back(); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "If").blocks[1] = step_of(p, "If").blocks[0]; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "If").blocks[0] = 0; }), Code::ENGINE_RANGE) << "a ring";
  EXPECT_EQ(damaged([](Program& p) { p.blocks[1].outputs.clear(); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "If").op = "Loop"; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "If").op = "Scan"; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "Relu").blocks = {1}; }), Code::ENGINE_RANGE);
}

TEST(CheckProgram, OperandsThatMustBeThere) {
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "Add").inputs[1] = -1; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { step_of(p, "Add").inputs.push_back(0); }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.threads = 1 << 30; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.threads = -1; }), Code::ENGINE_RANGE);
  EXPECT_EQ(damaged([](Program& p) { p.inputs[0].buffer = p.inputs[1].buffer; }), Code::ENGINE_RANGE);
}

// Bodies in bodies: `depth` Ifs, each in the then-branch of the one before.
Program nested(int depth) {
  Program p;
  auto buffer = [&](DType dtype) {
    p.buffers.push_back({"b" + std::to_string(p.buffers.size()), {dtype, Shape(std::vector<Dim>{})}, false, Tensor()});
    return static_cast<int32_t>(p.buffers.size()) - 1;
  };
  const int32_t c = buffer(DType::BOOL);
  p.blocks.emplace_back();
  p.blocks[0].inputs = {c};
  p.inputs.push_back({"c", c, Tensor(), false, {}});
  std::vector<int32_t> results = {buffer(DType::BOOL)};
  for (int level = 0; level < depth; ++level) {
    const auto then_block = static_cast<int32_t>(p.blocks.size());
    p.blocks.resize(p.blocks.size() + 2);
    p.blocks.back().outputs = {c};
    Step step;
    step.op = "If";
    step.inputs = {c};
    step.outputs = {results.back()};
    step.blocks = {then_block, then_block + 1};
    p.blocks[level == 0 ? 0 : static_cast<size_t>(then_block) - 2].steps = {static_cast<int32_t>(p.steps.size())};
    p.steps.push_back(std::move(step));
    results.push_back(buffer(DType::BOOL));
    p.blocks[static_cast<size_t>(then_block)].outputs = {level + 1 == depth ? c : results.back()};
  }
  p.blocks[0].outputs = {results[0]};
  p.outputs.push_back({"y", results[0]});
  return p;
}

TEST(CheckProgram, BlocksFormATreeOfLimitedDepth) {
  EXPECT_EQ(code_of(nested(static_cast<int>(limits::engine_depth))), Code::OK);
  EXPECT_EQ(code_of(nested(static_cast<int>(limits::engine_depth) + 1)), Code::ENGINE_RANGE);
  EXPECT_EQ(code_of(nested(20000)), Code::ENGINE_RANGE);
}

}  // namespace
}  // namespace deepjit
