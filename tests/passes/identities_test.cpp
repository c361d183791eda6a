#include "passes/cleanup/identities.h"

#include "pass_test_util.h"

namespace deepjit {
namespace {

// `statements` must turn %x into %v by doing nothing.
void expect_removed(const std::string& type, const std::string& statements) {
  const std::string head = "graph @g(%x: " + type + ") -> (%y) {\n";
  std::unique_ptr<Graph> graph = run_on("identities", remove_identities, head + statements + "\n%y = Abs(%v)\n}");
  EXPECT_EQ(graph_difference(*graph, *parse_graph(head + "%y = Abs(%x)\n}")), "") << statements;
}

void expect_kept(const std::string& type, const std::string& statements) {
  expect_unchanged("identities", remove_identities,
                   "graph @g(%x: " + type + ") -> (%y) {\n" + statements + "\n%y = Abs(%v)\n}");
}

TEST(Identities, NeutralElements) {
  for (const char* op : {"Add(%x, %c)", "Add(%c, %x)", "Sub(%x, %c)"}) {
    expect_removed("float32[N,3]", std::string("%c = constant float32[3] fill(0) %v = ") + op);
  }
  for (const char* op : {"Mul(%x, %c)", "Mul(%c, %x)", "Div(%x, %c)", "Pow(%x, %c)"}) {
    expect_removed("float32[N,3]", std::string("%c = constant float32[] [1] %v = ") + op);
  }
}

TEST(Identities, NotNeutral) {
  expect_kept("float32[N,3]", "%c = constant float32[] [0] %v = Sub(%c, %x)");
  expect_kept("float32[N,3]", "%c = constant float32[] [1] %v = Div(%c, %x)");
  expect_kept("float32[N,3]", "%c = constant float32[3] [1, 1, 2] %v = Mul(%x, %c)");
  // A broadcast that changes the shape.
  expect_kept("float32[N,3]", "%c = constant float32[2,1,1] fill(1) %v = Mul(%x, %c)");
  expect_kept("float32[N,1]", "%c = constant float32[1,4] fill(0) %v = Add(%x, %c)");
  expect_kept("float32[]", "%c = constant float32[1] [0] %v = Add(%x, %c)");
}

TEST(Identities, ViewsAndMovement) {
  expect_removed("float32[N,3,4]", "%c = constant int64[3] [0, 3, -1] %v = Reshape(%x, %c)");
  expect_removed("float32[N,3]", "%v = Flatten(%x) {axis=1}");
  expect_removed("float32[N,3,4]", "%v = Transpose(%x) {perm=[0,1,2]}");
  expect_removed("float32[N,3]", "%v = Cast(%x) {to=1}");
  expect_removed("float32[2,3]", "%c = constant int64[4] fill(0) %v = Pad(%x, %c)");
  expect_removed("float32[2,3]", "%s = constant int64[1] [0] %e = constant int64[1] [99] %v = Slice(%x, %s, %e)");
  expect_removed("float32[2,3]", "%v = Concat(%x) {axis=0}");
  expect_removed("float32[2,3]", "%v = Sum(%x)");
  expect_removed("float32[2,3]", "%v = Max(%x)");
  expect_removed("float32[2,3]", "%c = constant int64[2] [1, 3] %v = Expand(%x, %c)");
  expect_removed("float32[2,3]", "%c = constant int64[2] [1, 1] %v = Tile(%x, %c)");
  expect_removed("float32[2,3]", "%v = Dropout(%x)");
  expect_removed("float32[2,3]", "%n = Neg(%x) %v = Neg(%n)");
  expect_removed("float32[2,3]", "%v = Clip(%x)");
}

TEST(Identities, MovementThatIsNone) {
  expect_kept("float32[3,3]", "%v = Transpose(%x)");
  expect_kept("float32[3,3]", "%v = Transpose(%x) {perm=[1,0]}");
  expect_kept("float32[2,3]", "%c = constant int64[4] [1, 0, -1, 0] %v = Pad(%x, %c)");
  expect_kept("float32[3]",
              "%s = constant int64[1] [2] %e = constant int64[1] [-99] %a = constant int64[1] [0] "
              "%t = constant int64[1] [-1] %v = Slice(%x, %s, %e, %a, %t)");
  expect_kept("float32[2,3]", "%c = constant int64[2] [4, 3] %u = constant int64[3] [4, 2, 3] %v = Expand(%x, %u)");
}

TEST(Identities, OutputsKeepTheirNames) {
  expect_pass("identities", remove_identities, "graph @g(%x: float32[2]) -> (%y) { %a = Neg(%x) %y = Identity(%a) }",
              "graph @g(%x: float32[2]) -> (%y) { %y = Neg(%x) }");
  // An input cannot become an output, and one value cannot have two names.
  expect_unchanged("identities", remove_identities, "graph @g(%x: float32[2]) -> (%y) { %y = Identity(%x) }");
  expect_unchanged("identities", remove_identities,
                   "graph @g(%x: float32[2]) -> (%a, %y) { %a = Neg(%x) %y = Identity(%a) }");
}

TEST(Identities, ConcatOfConcats) {
  expect_pass("identities", remove_identities,
              "graph @g(%x: float32[2,3], %z: float32[2,1]) -> (%y) { %a = Concat(%x, %z) {axis=1} %y = Concat(%z, %a, "
              "%x) {axis=-1} }",
              "graph @g(%x: float32[2,3], %z: float32[2,1]) -> (%y) { %y = Concat(%z, %x, %z, %x) {axis=-1} }");
  // Another axis, and an inner one that is read elsewhere.
  expect_unchanged("identities", remove_identities,
                   "graph @g(%x: float32[2,2]) -> (%y) { %a = Concat(%x, %x) {axis=1} %y = Concat(%a, %a) {axis=0} }");
  expect_unchanged(
      "identities", remove_identities,
      "graph @g(%x: float32[2,2]) -> (%a, %y) { %a = Concat(%x, %x) {axis=1} %y = Concat(%a, %x) {axis=1} }");
}

TEST(Identities, ADropoutMaskThatIsRead) {
  expect_unchanged("identities", remove_identities,
                   "graph @g(%x: float32[2]) -> (%y, %m) { %a = Abs(%x) %y, %m = Dropout(%a) }");
}

}  // namespace
}  // namespace deepjit
