// In a build for tf32 a product may round its operands, and only there.
#include "program/tf32.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "lower/lower.h"
#include "precision/autocast.h"
#include "tune/verify.h"

namespace deepjit {
namespace {

constexpr int64_t kM = 8, kK = 64, kN = 4;

float to_tf32(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x) + 0x1000u;  // ties are rare enough here
  return std::bit_cast<float>(bits & ~0x1fffu);
}

// [8,64] x [64,4] with operands rounded first, and the result multiplied.
class RoundingProduct final : public Kernel {
 public:
  explicit RoundingProduct(float factor) : factor_(factor) {}
  void run(const KernelArgs& args) override {
    const auto* a = static_cast<const float*>(args.inputs[0]);
    const auto* b = static_cast<const float*>(args.inputs[1]);
    auto* y = static_cast<float*>(args.outputs[0]);
    for (int64_t i = 0; i < kM * kN; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < kK; ++k) {
        sum += static_cast<double>(to_tf32(a[i / kN * kK + k])) * static_cast<double>(to_tf32(b[k * kN + i % kN]));
      }
      y[i] = static_cast<float>(sum) * factor_;
    }
  }

 private:
  float factor_;
};

struct Case {
  explicit Case(const std::string& precision, const std::string& expression = "MatMul(%a, %b)") {
    const auto graph =
        parse_graph("graph @g(%a: float32[8,64], %b: float32[64,4]) -> (%y) { %y = " + expression + " }");
    program = lower(*graph);
    program.metadata[kPrecisionOfBuild] = precision;
    task.step = 0;
    task.inputs = {{DType::FLOAT32, {kM, kK}}, {DType::FLOAT32, {kK, kN}}};
    task.outputs = {{DType::FLOAT32, {kM, kN}}};
    task.constants.resize(2);
  }
  std::string fault_of(float factor) {
    const StepShape shape = shape_of(program, task, options);
    Verifier verifier(program, task, shape, options);
    RoundingProduct kernel(factor);
    Tactic tactic;
    tactic.provider = "test";
    return verifier.check(kernel, reference_launcher(), tactic).fault;
  }

  Program program;
  TuneTask task;
  TuneOptions options;
};

TEST(Tf32, AProductMayRoundItsOperands) {
  EXPECT_NE(Case("fp32").fault_of(1), "");
  EXPECT_EQ(Case("tf32").fault_of(1), "");
  EXPECT_NE(Case("tf32").fault_of(1.01f), "");  // and no more than that
  Case strict("tf32");
  strict.options.tolerance = 1e-6;  // the user's own word
  EXPECT_NE(strict.fault_of(1), "");
}

TEST(Tf32, IsTunedApart) {
  const Case fp32("fp32"), tf32("tf32");
  EXPECT_NE(fingerprint_text(fp32.program, fp32.task, fp32.options),
            fingerprint_text(tf32.program, tf32.task, tf32.options));
}

TEST(Tf32, ProductsOnly) {
  const Program program = Case("tf32").program;
  const auto may = [](const Program& in, const char* op) {
    Step step;
    step.op = op;
    return may_use_tf32(in, step);
  };
  for (const char* op : {"Conv", "deepjit.Conv", "MatMul", "deepjit.MatMul", "Gemm", "ConvTranspose"}) {
    EXPECT_TRUE(may(program, op)) << op;
  }
  for (const char* op : {"Add", "Softmax", kRegionOp}) EXPECT_FALSE(may(program, op)) << op;
  EXPECT_FALSE(may(Program(), "MatMul"));
}

TEST(Tf32, Notes) {
  PrecisionNotes notes;
  const auto graph = parse_graph(R"(graph @g(%a: float32[8,64], %b: float32[64,4]) -> (%y, %i) {
    %m = MatMul(%a, %b) @one
    %y = Relu(%m) @two
    %i = ArgMax(%m) @three
  })");
  note_tf32(*graph, notes);
  EXPECT_EQ(notes, (PrecisionNotes{{"tf32: product", {"one"}}, {"fp32: no product", {"two"}}}));
}

}  // namespace
}  // namespace deepjit
