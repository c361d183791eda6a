// Guessed shapes are small enough to try: a build without ranges needs neither minutes nor gigabytes.
#include "compiler/shapes.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "lower/lower.h"

namespace deepjit {

TEST(GuessedShapes, StaySmallWhateverTheRank) {
  const Program program = lower(*parse_graph(R"(graph @main(%x: float32[8,8,N,N], %y: float32[N,4,7,8,N]) -> (%a, %b) {
    %a = Relu(%x)
    %b = Relu(%y)
  })"));
  bool guessed = false;
  for (const InputShapes& shapes : candidate_shapes(program, Which::OPT, &guessed)) {
    EXPECT_EQ(shapes[0].dims[2], shapes[1].dims[0]);  // one symbol, one size
    for (const TensorDesc& desc : shapes) EXPECT_LE(desc.count(), int64_t{1} << 22);
  }
  EXPECT_TRUE(guessed);
}

TEST(GuessedShapes, LeaveOutStepsThatGrowTooLarge) {
  const Program program = lower(*parse_graph(R"(graph @main(%x: float32[1,N,M]) -> (%y) {
    %t = constant int64[3] [4000,1,1]
    %a = Relu(%x)
    %y = Tile(%a, %t)
  })"));
  bool guessed = false;
  const Probe probed = probe(program, Which::OPT, 1, &guessed);
  for (const TuneTask& task : probed.tasks) {
    for (const TensorDesc& desc : task.outputs) EXPECT_LE(desc.bytes(), int64_t{256} << 20);
  }
  EXPECT_FALSE(probed.tasks.empty());
}

TEST(GuessedShapes, GivenRangesAreTakenAsTheyAre) {
  const auto graph = parse_graph("graph @main(%x: float32[N,1024]) -> (%y) { %y = Relu(%x) }");
  Program program = lower(*graph, {.regions = false});
  program.inputs[0].has_range = true;
  program.inputs[0].range = {Dims{1, 1024}, Dims{8192, 1024}, Dims{8192, 1024}};
  bool guessed = true;
  const Probe probed = probe(program, Which::OPT, 1, &guessed);
  EXPECT_FALSE(guessed);
  ASSERT_EQ(probed.tasks.size(), 1u);
  EXPECT_EQ(probed.tasks[0].outputs[0].dims, (Dims{8192, 1024}));
}

}  // namespace deepjit
