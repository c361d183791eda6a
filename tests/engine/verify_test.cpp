// A kernel that is wrong is dropped and named, however it is wrong; one within the tolerance is taken, and its error
// kept.
#include "tune/verify.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "base/visit.h"
#include "compiler/shapes.h"
#include "engine/format.h"
#include "graph/parse.h"
#include "lower/lower.h"

namespace deepjit {

namespace {

// What a kernel does to a result that was right.
using Damage = std::function<void(Tensor& result)>;

Damage g_damage;

// The steps of a region, then the damage.
class WrongKernel final : public Kernel {
 public:
  explicit WrongKernel(const StepShape& shape)
      : right_(reference_launcher().make(shape, Tactic{})), out_(shape.outputs[0]) {}
  size_t scratch_bytes() const override { return right_->scratch_bytes(); }
  void run(const KernelArgs& args) override {
    Tensor result(out_.dtype, out_.dims);
    void* outputs[] = {result.view().data};
    KernelArgs inside = args;
    inside.outputs = outputs;
    right_->run(inside);
    g_damage(result);
    if (result.defined()) std::memcpy(args.outputs[0], result.view().data, static_cast<size_t>(result.bytes()));
  }

 private:
  std::unique_ptr<Kernel> right_;
  TensorDesc out_;
};

class WrongOfferer final : public Offerer {
 public:
  std::string name() const override { return "wrong"; }
  Offer offer(const StepShape& shape) const override {
    Offer offer;
    if (shape.step->op != kRegionOp && shape.step->op != "MatMul") return offer;
    offer.tactics.emplace_back();
    offer.tactics.back().provider = name();
    return offer;
  }
  void pack(const StepShape&, Tactic&) const override {}
};

class WrongLauncher final : public Launcher {
 public:
  std::string name() const override { return "wrong"; }
  std::unique_ptr<Kernel> make(const StepShape& shape, const Tactic&) const override {
    return std::make_unique<WrongKernel>(shape);
  }
  Tensor unpack(const PackedOperand&, const TensorDesc&) const override { return {}; }
};

struct Outcome {
  Tactic tactic;        // of the region or product
  std::string dropped;  // the log's line about the wrong kernel
  std::string others;   // the log's lines about others that were dropped
  std::vector<Choice> choices;
  std::map<int32_t, Refusal> unfused;
};

Program program_of(const std::string& type, const std::string& nodes) {
  Program program = lower(*parse_graph("graph @main(%x: " + type + "[N,40]) -> (%y) {\n" + nodes + "\n}"));
  program.inputs[0].has_range = true;
  program.inputs[0].range = {{1, 40}, {6, 40}, {64, 40}};
  return program;
}

const char* const kChain = "%a = Tanh(%x)\n %y = Mul(%a, %x)";
const char* const kRows = "%a = Neg(%x)\n %y = Softmax(%a)";

Outcome tuned(const Damage& damage, double tolerance = 0, const std::string& type = "float32",
              const std::string& nodes = kChain, const std::string& force = "wrong",
              const std::string& precision = "fp32") {
  static const WrongOfferer offerer;
  static const WrongLauncher launcher;
  g_damage = damage;
  Program program = program_of(type, nodes);
  program.metadata["build.precision"] = precision;
  bool guessed = false;
  const Probe probed = probe(program, Which::OPT, 1, &guessed);
  Outcome out;
  TuneOptions options;
  options.force_tactic = force;
  options.tolerance = tolerance;
  options.more_providers = {{&offerer, &launcher}};
  options.log = [&](const std::string& line) {
    if (line.find("wrong dropped") != std::string::npos)
      out.dropped = line;
    else if (line.find(" dropped: ") != std::string::npos)
      out.others += line;
  };
  TuneReport report = tune(program, probed.tasks, options);
  out.choices = report.choices;
  out.unfused = report.unfused;
  for (const Step& step : program.steps) {
    if (step.op == kRegionOp || step.op == "MatMul") out.tactic = step.tactic;
  }
  return out;
}

template <typename F>
Damage change(F&& f) {
  return [f](Tensor& result) {
    visit_float(result.dtype(), "test", [&]<typename T>() {
      for (int64_t i = 0; i < result.count(); ++i) {
        const double value = result.to_f64()[static_cast<size_t>(i)];
        result.as<T>()[i] = T(static_cast<float>(f(value, i, result)));
      }
    });
  };
}

// Every element off by a part of itself, but for those that would leave float16.
Damage all_off_by(double part) {
  return change([part](double v, int64_t, Tensor&) { return std::abs(v) < 6e4 ? v * (1 + part) : v; });
}

// The last element off by a part of the largest.
Damage last_off_by(double part) {
  return [part](Tensor& result) {
    double largest = 0;
    for (double v : result.to_f64()) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
    visit_float(result.dtype(), "test", [&]<typename T>() {
      const double last = result.to_f64().back();
      result.as<T>()[result.count() - 1] = T(static_cast<float>(last + part * largest));
    });
  };
}

void expect_dropped(const Outcome& out, const std::string& words) {
  EXPECT_NE(out.tactic.provider, "wrong");
  EXPECT_NE(out.dropped.find("relative error"), std::string::npos) << out.dropped;
  EXPECT_NE(out.dropped.find(words), std::string::npos) << out.dropped;
}

}  // namespace

TEST(Verify, TakesWhatIsRight) {
  const Outcome out = tuned([](Tensor&) {});
  EXPECT_EQ(out.tactic.provider, "wrong");
  EXPECT_EQ(out.tactic.max_error, 0);
  EXPECT_EQ(out.dropped, "");
}

TEST(Verify, KeepsTheErrorThatItMeasured) {
  const Outcome out = tuned(all_off_by(4e-6));
  EXPECT_EQ(out.tactic.provider, "wrong");
  EXPECT_NEAR(out.tactic.max_error, 4e-6, 1e-6);
}

TEST(Verify, DropsOneWrongElementOfMany) { expect_dropped(tuned(last_off_by(4e-5)), "allowed is 1.0e-05"); }

// e^x - e^x: 0 by the steps, the rounding of its terms by a kernel that computes one of them otherwise.
TEST(Verify, WhatRoundingMakesOfTheReferenceIsNoFault) {
  const std::string nodes = "%a = Exp(%x)\n %b = Exp(%x)\n %y = Sub(%a, %b)";
  const auto off_by = [](double amount) { return change([=](double v, int64_t, Tensor&) { return v + amount; }); };
  EXPECT_EQ(tuned(off_by(1e-8), 0, "float32", nodes).tactic.provider, "wrong");
  expect_dropped(tuned(off_by(1e-4), 0, "float32", nodes), "allowed is 1.0e-05");
  expect_dropped(tuned(off_by(1e-8), 1e-5, "float32", nodes), "allowed is 1.0e-05");  // the user's own tolerance
  const auto no_nan = change([](double v, int64_t, Tensor&) { return std::isnan(v) ? 0 : v; });
  expect_dropped(tuned(no_nan, 0, "float32", nodes), "on special values");
}

TEST(Verify, TheToleranceIsTheUsers) {
  EXPECT_EQ(tuned(all_off_by(4e-5), 1e-3).tactic.provider, "wrong");
  expect_dropped(tuned(all_off_by(4e-6), 1e-6), "allowed is 1.0e-06");
}

TEST(Verify, TheDefaultGoesByTheTypeOfTheResult) {
  EXPECT_EQ(tuned(all_off_by(6e-4), 0, "float16", "%a = Neg(%x)\n %y = Abs(%a)").tactic.provider, "wrong");
  expect_dropped(tuned(all_off_by(6e-3), 0, "float16", "%a = Neg(%x)\n %y = Abs(%a)"), "allowed is 1.0e-03");
  expect_dropped(tuned(all_off_by(6e-3), 0, "bfloat16", "%a = Neg(%x)\n %y = Abs(%a)"), "allowed is 1.0e-03");
}

// All elements as many places up, among the floats of 16 bits.
Damage all_up_by(int places) {
  return [places](Tensor& result) {
    for (int64_t i = 0; i < result.count(); ++i) {
      if (std::abs(result.to_f64()[static_cast<size_t>(i)]) < 6e4) result.as<uint16_t>()[i] += places;
    }
  };
}

TEST(Verify, SixteenBitsMayDifferByOneUnitInTheLastPlace) {
  const std::string abs = "%a = Neg(%x)\n %y = Abs(%a)";  // nothing is rounded
  for (const std::string type : {"float16", "bfloat16"}) {
    for (const double tolerance : {0.0, 1e-12}) {
      EXPECT_EQ(tuned(all_up_by(1), tolerance, type, abs).tactic.provider, "wrong") << type;
      expect_dropped(tuned(all_up_by(2), 1e-12, type, abs), "or one unit in the last place of " + type);
    }
  }
  expect_dropped(tuned(all_up_by(2), 0, "bfloat16", abs),
                 "allowed is 1.0e-03 or one unit in the last place of bfloat16");
  const auto to_infinity = change([](double v, int64_t, Tensor&) { return std::abs(v) > 65000 ? INFINITY : v; });
  expect_dropped(tuned(to_infinity, 0, "float16", abs), "on special values");  // though the largest number is beside it
}

// What the steps' kernels give one by one, each rounded, is not what one kernel gives.
TEST(Verify, DropsWhatRoundsBetweenTheStepsOfARegion) {
  const std::string cancels = "%e = Exp(%x)\n %f = Exp(%e)\n %a = Add(%f, %x)\n %y = Sub(%a, %f)";
  for (const std::string type : {"float16", "bfloat16"}) {
    const Outcome rounds = tuned([](Tensor&) {}, 0, type, cancels);
    expect_dropped(rounds, "allowed is 1.0e-03");
    EXPECT_EQ(rounds.others, "") << type;  // neither the generated kernel nor the steps
    EXPECT_EQ(tuned([](Tensor&) {}, 0, type, cancels, "reference").tactic.variant, "steps") << type;
  }
  EXPECT_EQ(tuned([](Tensor&) {}, 0, "float32", cancels).tactic.provider, "wrong");
}

TEST(Verify, DropsAWrong16BitKernel) {
  const std::string rows = "%a = Exp(%x)\n %s = Softmax(%a)\n %y = Neg(%s)";
  const std::string chain = "%a = Tanh(%x)\n %b = Exp(%a)\n %y = Mul(%b, %a)";
  for (const std::string type : {"float16", "bfloat16"}) {
    for (const std::string& nodes : {rows, chain}) {
      expect_dropped(tuned(last_off_by(0.02), 0, type, nodes), "allowed is 1.0e-03");
      expect_dropped(tuned([](Tensor& result) { result = Tensor(); }, 0, type, nodes), "relative error");
      EXPECT_EQ(tuned(last_off_by(0.02), 0, type, nodes).others, "") << type;
    }
  }
}

// A region's own edges between integers are a matter of the last digit; what it only moves is not.
TEST(Verify, WhatARegionQuantizesMayDifferByOne) {
  const auto off_by = [](int8_t units) {
    return [units](Tensor& result) {
      for (int64_t i = 0; i < result.count(); i += 3) {
        const int moved = result.as<int8_t>()[i] + units;
        result.as<int8_t>()[i] = static_cast<int8_t>(std::min(moved, 127));
      }
    };
  };
  const std::string quantizes =
      "%s = constant float32[1] [0.05]\n %z = constant int8[1] [0]\n %a = Tanh(%x)\n %y = QuantizeLinear(%a, %s, %z)";
  EXPECT_EQ(tuned(off_by(1), 0, "float32", quantizes).tactic.provider, "wrong");
  expect_dropped(tuned(off_by(2), 0, "float32", quantizes), "or one unit in the last place of int8");
  const std::string moves = "%a = Transpose(%x) {perm=[1, 0]}\n %y = Concat(%a, %a) {axis=0}";
  EXPECT_EQ(tuned([](Tensor&) {}, 0, "int8", moves).tactic.provider, "wrong");
  expect_dropped(tuned(off_by(1), 0, "int8", moves), "allowed is 1.0e-05");
}

TEST(Verify, DropsWhatWritesNothing) {
  expect_dropped(tuned([](Tensor& result) { result = Tensor(); }), "relative error");
}

TEST(Verify, DropsWhatIsWrongOnlyForSpecialValues) {
  const auto no_nan = change([](double v, int64_t, Tensor&) { return std::isnan(v) ? 0.0 : v; });
  const auto no_infinity =
      change([](double v, int64_t, Tensor&) { return std::isinf(v) ? std::copysign(3.4e38, v) : v; });
  const auto no_large = change([](double v, int64_t, Tensor&) { return std::abs(v) > 1e20 ? v * 1.001 : v; });
  expect_dropped(tuned(no_nan), "special values");
  expect_dropped(tuned(no_infinity), "special values");
  expect_dropped(tuned(no_large), "special values");
  expect_dropped(tuned(no_nan, 0, "float32", kRows), "special values");
}

TEST(Verify, DropsWhatIsWrongOnlyAtTheEndOfAVector) {
  // 19 rows of 40: the odd size of N, which was tuned at 6.
  const Outcome out = tuned([](Tensor& result) {
    if (result.dims()[0] != 6) last_off_by(1e-3)(result);
  });
  expect_dropped(out, "odd sizes");
}

TEST(Verify, TheLedgerHearsOfIt) {
  const Outcome out = tuned(last_off_by(4e-5));
  ASSERT_EQ(out.unfused.size() + (out.tactic.provider == "llvm" ? 1 : 0), 1u);
  for (const auto& [step, why] : out.unfused) {
    EXPECT_TRUE(why.rule == Why::KERNEL_WRONG || why.rule == Why::NOT_FASTER);
  }
}

// LLVM has no Exp of float64, so that the slow kernel is the only one.
TEST(Verify, TheLedgerTellsTheTimesOfAKernelThatIsNotFaster) {
  const auto slow = [](Tensor&) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  const Outcome out = tuned(slow, 0, "float64", "%a = Exp(%x)\n %y = Mul(%a, %x)", "");
  EXPECT_EQ(out.tactic.provider, "reference");
  ASSERT_EQ(out.unfused.size(), 1u);
  const Refusal& why = out.unfused.begin()->second;
  EXPECT_EQ(why.rule, Why::NOT_FASTER);
  EXPECT_NE(why.reason.find("the kernel takes "), std::string::npos) << why.reason;
  double figure = 0;  // in microseconds; only the region has one
  for (const Choice& choice : out.choices) figure += choice.figure;
  EXPECT_GE(figure, 2000);
  EXPECT_EQ(tuned(slow, 0, "float64", "%a = Exp(%x)\n %y = Mul(%a, %x)", "reference").unfused.begin()->second.rule,
            Why::TACTIC_FORCED);
}

TEST(Verify, ABuildInTf32LetsProductsRoundTheirOperands) {
  const std::string product = "%t = Transpose(%x) {perm=[1, 0]}\n %y = MatMul(%x, %t)";
  const auto tf32 = [&](double error, const std::string& nodes, double tolerance = 0) {
    return tuned(last_off_by(error), tolerance, "float32", nodes, "wrong", "tf32");
  };
  EXPECT_EQ(tf32(5e-4, product).tactic.provider, "wrong");
  expect_dropped(tf32(5e-3, product), "allowed is 1.0e-03");
  expect_dropped(tf32(5e-4, product, 1e-4), "allowed is 1.0e-04");  // the user's own
  expect_dropped(tf32(5e-4, kChain), "allowed is 1.0e-05");
  expect_dropped(tuned(last_off_by(5e-4), 0, "float32", product), "allowed is 1.0e-05");
  const auto key = [](const Outcome& out) {
    for (const Choice& choice : out.choices) {
      if (choice.op == "MatMul") return choice.fingerprint;
    }
    return std::string();
  };
  EXPECT_NE(key(tf32(0, product)), "");
  EXPECT_NE(key(tf32(0, product)), key(tuned(last_off_by(0), 0, "float32", product)));
}

TEST(Verify, AnotherToleranceIsAnotherKey) {
  const std::vector<Choice> usual = tuned([](Tensor&) {}).choices;
  const std::vector<Choice> own = tuned([](Tensor&) {}, 1e-2).choices;
  EXPECT_NE(usual.back().fingerprint, own.back().fingerprint);
}

}  // namespace deepjit
