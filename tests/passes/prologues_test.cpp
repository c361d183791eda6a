// Prologues of products in a program: found, joined and parted (lower/prologues.h).
#include "lower/prologues.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "lower/lower.h"

namespace deepjit {
namespace {

bool is_matmul(const Step& step) { return step.op == "MatMul"; }

Program lowered(const std::string& text) { return lower(*parse_graph(text)); }

// Steps of the entry by their operators, with those inside regions: "Mul+Relu MatMul".
std::string steps_of(const Program& program) {
  std::string text;
  for (int32_t index : program.blocks[0].steps) {
    const Step& step = program.steps[static_cast<size_t>(index)];
    text += text.empty() ? "" : " ";
    if (step.op != kRegionOp) {
      text += step.op;
      continue;
    }
    const std::vector<int32_t>& inside = program.blocks[static_cast<size_t>(step.blocks[0])].steps;
    for (size_t i = 0; i < inside.size(); ++i) {
      text += (i == 0 ? "" : "+") + program.steps[static_cast<size_t>(inside[i])].op;
    }
  }
  return text;
}

constexpr const char* kScaled = R"(graph @g(%x: float32[N,8], %s: float32[8], %c: float32[N,4]) -> (%y) {
    %w = constant float32[8,4] random(1)
    %a = Mul(%s, %x) @scale
    %b = Relu(%a) @relu
    %p = MatMul(%b, %w) @product
    %y = Add(%p, %c) @add
  })";

TEST(Prologues, JoinAndPart) {
  Program program = lowered(kScaled);
  ASSERT_EQ(steps_of(program), "Mul+Relu MatMul Add");
  const std::vector<ProloguePair> pairs = find_prologues(program, is_matmul);
  ASSERT_EQ(pairs.size(), 1u);
  const auto name = [&](int32_t buffer) { return program.buffers[static_cast<size_t>(buffer)].name; };
  EXPECT_EQ(name(pairs[0].chain), "x");
  const Step before = program.steps[static_cast<size_t>(pairs[0].region)];
  join_prologue(program, pairs[0]);
  EXPECT_EQ(steps_of(program), "Mul+Relu+MatMul Add");
  const Step& joined = program.steps[static_cast<size_t>(pairs[0].region)];
  std::vector<std::string> inputs;
  for (int32_t b : joined.inputs) inputs.push_back(name(b));
  EXPECT_EQ(inputs, (std::vector<std::string>{"x", "w", "s"}));
  EXPECT_EQ(name(joined.outputs[0]), "p");
  EXPECT_EQ(joined.name, "scale+..+product");
  EXPECT_EQ(joined.origins, (std::vector<std::string>{"scale", "relu", "product"}));
  EXPECT_TRUE(find_prologues(program, is_matmul).empty());

  part_prologues(program, is_matmul);
  EXPECT_EQ(steps_of(program), "Mul+Relu MatMul Add");
  const Step& after = program.steps[static_cast<size_t>(pairs[0].region)];
  EXPECT_EQ(after.inputs, before.inputs);
  EXPECT_EQ(after.outputs, before.outputs);
  EXPECT_EQ(after.name, before.name);
  EXPECT_EQ(after.origins, before.origins);
}

TEST(Prologues, WhatIsReadTwiceOrGrowsStays) {
  const auto count = [](const std::string& text) { return find_prologues(lowered(text), is_matmul).size(); };
  const auto graph_of = [](const std::string& inputs, const std::string& outputs, const std::string& body) {
    return "graph @g(" + inputs + ") -> (" + outputs + ") { %w = constant float32[8,4] random(1) " + body + " }";
  };
  const std::string x = "%x: float32[N,8]", mul = "%a = Mul(%x, %s) ", product = "%y = MatMul(%a, %w)";
  EXPECT_EQ(count(graph_of(x + ", %s: float32[8]", "%y", mul + product)), 1u);
  EXPECT_EQ(count(graph_of(x + ", %s: float32[8]", "%y, %a", mul + product)), 0u);
  EXPECT_EQ(count(graph_of(x + ", %s: float32[8]", "%y, %z", mul + product + " %z = MatMul(%a, %w)")), 0u);
  EXPECT_EQ(count(graph_of("%x: float32[1,8], %s: float32[N,1]", "%y", mul + product)), 0u);  // no operand is as large
  EXPECT_EQ(count(graph_of("%x: float32[8,4], %v: float32[N,8]", "%y", "%a = Relu(%x) %y = MatMul(%v, %a)")), 0u);
}

}  // namespace
}  // namespace deepjit
