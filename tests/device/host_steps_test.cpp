// Engines for a device with steps that run on the host, on the null device: what is copied and when, how both sides
// take turns, and that the host's results are right. Numbers of both sides together: test_stand_in_gpu.py.
#include <cmath>

#include "device_engine_util.h"

namespace deepjit {

namespace {

using namespace device_tests;

// Runs of host steps between two waits of the device, and copies, are told by the calls.
struct Counts {
  size_t in, out, waits, graphs, launches;
  bool operator==(const Counts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << "in " << c.in << " out " << c.out << " waits " << c.waits << " graphs " << c.graphs << " launches "
             << c.launches;
}

Counts counts_of(const std::vector<NullDevice::Record>& calls) {
  return {count(calls, Kind::COPY_IN), count(calls, Kind::COPY_OUT), count(calls, Kind::SYNCHRONIZE),
          count(calls, Kind::GRAPH), count(calls, Kind::LAUNCH)};
}

std::vector<float> floats(const TensorView& view) { return {view.as<float>(), view.as<float>() + view.count()}; }

// Only the region that writes this value has a kernel.
Program with_one_kernel(const std::string& value, const std::string& text) {
  Program program = program_of(text);
  for (Step& step : program.steps) {
    if (program.buffers[static_cast<size_t>(step.outputs[0])].name != value) step.tactic = Tactic{};
  }
  return program;
}

TEST(HostSteps, AModelWithoutKernelsTouchesNoDeviceMemory) {
  const Fixture f(program_of(R"(graph @main(%x: float32[N,3]) -> (%y) {
    %i = constant int64[] [1]
    %y = CumSum(%x, %i)
  })"));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(counts_of(f.run(context, counted({2, 3}), outputs)), (Counts{0, 0, 1, 0, 0}));
    EXPECT_EQ(floats(outputs[0]), (std::vector<float>{1, 3, 6, 4, 9, 15}));
  }
}

// One kernel, then three readers of its value on the host.
TEST(HostSteps, AValueIsCopiedOnceForAllItsReaders) {
  const Fixture f(program_of(R"(graph @main(%x: float32[N,64]) -> (%p, %q, %r) {
    %i = constant int64[] [0]
    %w = constant float32[64] random(1)
    %a = Mul(%x, %w)
    %b = Tanh(%a)
    %p = CumSum(%b, %i)
    %q = CumSum(%b, %i) {reverse=1}
    %r = CumSum(%b, %i) {exclusive=1}
  })"));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({4, 64});
  EXPECT_EQ(counts_of(f.run(context, x, outputs)), (Counts{1, 1, 2, 0, 1}));
  const size_t blocks = f.device->blocks();
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(counts_of(f.run(context, x, outputs)), (Counts{1, 1, 2, 1, 1}));  // the graph has the copy too
  }
  EXPECT_EQ(f.device->blocks(), blocks);
}

TEST(HostSteps, WhatTheHostMakesIsUploadedOnceAndReadThere) {
  const Fixture f(program_of(R"(graph @main(%x: float32[N,64]) -> (%y, %z) {
    %i = constant int64[] [0]
    %c = CumSum(%x, %i)
    %a = Tanh(%c)
    %y = Neg(%a)
    %s = Softmax(%c) {axis=1}
    %z = Exp(%s)
  })"));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({2, 64});
  for (int run = 0; run < 3; ++run) {
    const auto calls = f.run(context, x, outputs);
    const Counts counts = counts_of(calls);
    EXPECT_EQ(counts.in, 1u);   // of the sum; x is read where it lies
    EXPECT_EQ(counts.out, 1u);  // the outputs
    EXPECT_EQ(counts.waits, 1u);
    EXPECT_EQ(counts.graphs, run == 0 ? 0u : 1u);
    const auto upload =
        std::find_if(calls.begin(), calls.end(), [](const auto& r) { return r.call.kind == Kind::COPY_IN; });
    EXPECT_EQ(upload->call.bytes, 2u * 64 * 4);
    for (const auto& record : calls) {
      if (record.call.kind != Kind::LAUNCH) continue;
      EXPECT_EQ(record.call.arguments[0], reinterpret_cast<uint64_t>(upload->call.to));
      const auto* sum = reinterpret_cast<const float*>(record.call.arguments[0]);
      EXPECT_EQ(sum[64], x.as<float>()[0] + x.as<float>()[64]);
    }
  }
}

// Three chains of kernel, host step, kernel: not nine turns but three.
TEST(HostSteps, BothSidesTakeTurnsAsSeldomAsTheyCan) {
  std::string body;
  for (const std::string& k : {std::string("1"), std::string("2"), std::string("3")}) {
    body += "%a" + k + " = Tanh(%x)\n%b" + k + " = Mul(%a" + k + ", %w" + k + ")\n%c" + k + " = CumSum(%b" + k +
            ", %i)\n%d" + k + " = Exp(%c" + k + ")\n%y" + k + " = Neg(%d" + k + ")\n";
  }
  Program program = program_of(R"(graph @main(%x: float32[N,64]) -> (%y1, %y2, %y3) {
    %i = constant int64[] [0]
    %w1 = constant float32[64] random(1)
    %w2 = constant float32[64] random(2)
    %w3 = constant float32[64] random(3)
)" + body + "}");
  const Fixture f(std::move(program));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({2, 64});
  const Counts first = counts_of(f.run(context, x, outputs));
  EXPECT_EQ(first.waits, 2u);
  EXPECT_EQ(first.in, 1u + 3);
  EXPECT_EQ(first.out, 1u + 3);
  EXPECT_EQ(counts_of(f.run(context, x, outputs)).graphs, 2u);
}

// Nothing goes from one side to the other, so the host need not wait for the device.
TEST(HostSteps, WorkSideBySideDoesNotWait) {
  const Fixture f(program_of(R"(graph @main(%x: float32[N,64]) -> (%y, %z) {
    %i = constant int64[] [0]
    %a = Tanh(%x)
    %y = Neg(%a)
    %z = CumSum(%x, %i)
  })"));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({2, 64});
  for (int run = 0; run < 2; ++run) EXPECT_EQ(counts_of(f.run(context, x, outputs)).waits, 1u);
  EXPECT_EQ(outputs[1].as<float>()[64], x.as<float>()[0] + x.as<float>()[64]);
}

TEST(HostSteps, OutputsOfTheHostGoWhereTheCallerWants) {
  const Fixture f(program_of(R"(graph @main(%x: float32[N,4]) -> (%y, %x, %y) {
    %i = constant int64[] [0]
    %y = CumSum(%x, %i)
  })"));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({2, 4});
  std::vector<std::vector<float>> own(3, std::vector<float>(8));
  const std::vector<TensorView> inputs = {x.view()};
  for (int run = 0; run < 3; ++run) {
    for (auto& memory : own) memory.assign(8, -1);
    context.run(inputs, outputs, [&](size_t i, const TensorDesc&) { return own[i].data(); });
    EXPECT_EQ(own[0], (std::vector<float>{1, 2, 3, 4, 6, 8, 10, 12}));
    EXPECT_EQ(own[1], floats(x.view()));
    EXPECT_EQ(own[2], own[0]);
    EXPECT_EQ(outputs[0].data, own[0].data());
  }
}

// What data decides: shapes, branches, trip counts.
TEST(HostSteps, WhatDependsOnDataRunsOnTheHost) {
  const Fixture f(with_one_kernel("y", R"(graph @main(%x: float32[N,64]) -> (%n, %l, %y) {
    %n = NonZero(%x)
    %zero = constant float32[] [0.0]
    %sum = ReduceSum(%x) {keepdims=1}
    %big = Greater(%sum, %zero)
    %l = If(%big) then { %t = Neg(%x) -> (%t) } else { -> (%x) }
    %a = Tanh(%x)
    %y = Neg(%a)
  })"));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  for (const float sign : {1.0f, -1.0f, 1.0f, 1.0f}) {
    Tensor x = counted({2, 64});
    for (int64_t i = 0; i < 128; ++i) x.as<float>()[i] *= i % 2 == 0 ? 0 : sign;
    const Counts counts = counts_of(f.run(context, x, outputs));
    EXPECT_EQ(counts.launches, 1u);
    EXPECT_EQ(outputs[0].dims, (Dims{2, 64}));
    EXPECT_EQ(outputs[0].as<int64_t>()[64], 1);
    EXPECT_EQ(outputs[1].as<float>()[1], -2.0f);  // Neg of 2, or -2 as it is
  }
}

TEST(HostSteps, AFailureOnTheHostLeavesTheContextUsable) {
  const Fixture f(with_one_kernel("z", R"(graph @main(%x: float32[N,64]) -> (%y, %z) {
    %rows = constant float32[4,64] random(1)
    %a = Tanh(%x)
    %z = Neg(%a)
    %c = ReduceMax(%x) {keepdims=1}
    %i = Cast(%c) {to=7}
    %y = Gather(%rows, %i) {axis=0}
  })"));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  Tensor x = counted({1, 64});
  for (const float index : {3.0f, 4.0f, 2.0f, 9.0f, 1.0f}) {
    std::fill_n(x.as<float>(), 64, index);
    const std::vector<TensorView> inputs = {x.view()};
    EXPECT_EQ(code_of([&] { context.run(inputs, outputs); }), index < 4 ? Code::OK : Code::INDEX_RANGE) << index;
  }
  EXPECT_EQ(outputs[0].dims, (Dims{1, 1, 64}));
}

TEST(HostSteps, AnEngineForItsDeviceOnlyRefusesThem) {
  Program program = program_of("graph @main(%x: float32[N,64]) -> (%y) { %y = NonZero(%x) }");
  program.metadata["build.device_only"] = "yes";
  const Fixture f(std::move(program));
  Context context(f.engine, 1);
  const Tensor x = counted({2, 64});
  const std::vector<TensorView> inputs = {x.view()};
  std::vector<TensorView> outputs;
  EXPECT_EQ(code_of([&] { context.run(inputs, outputs); }), Code::NO_DEVICE_KERNEL);
}

// Its own clock tells nothing about the host's steps, so there is no time of the device alone.
TEST(HostSteps, RunsInTurnsTellNoTimeOfTheDevice) {
  struct Steps : StepTimer {
    std::vector<std::string> seen;
    void on_step(const Step& step, double us) override {
      seen.push_back(step.op);
      EXPECT_GE(us, 0);
    }
  } steps;
  const Fixture f(program_of(R"(graph @main(%x: float32[N,64]) -> (%y) {
    %i = constant int64[] [0]
    %a = Tanh(%x)
    %b = Neg(%a)
    %y = CumSum(%b, %i)
  })"));
  Context context(f.engine, 1);
  context.measure_device_time(true);
  std::vector<TensorView> outputs;
  const Tensor x = counted({2, 64});
  for (int run = 0; run < 3; ++run) f.run(context, x, outputs);
  EXPECT_EQ(context.device_us(), 0);
  EXPECT_EQ(code_of([&] { context.replay_us(); }), Code::STATE);
  context.set_observer(&steps);
  f.run(context, x, outputs);
  EXPECT_EQ(steps.seen, (std::vector<std::string>{kRegionOp, "CumSum"}));
}

}  // namespace

}  // namespace deepjit
