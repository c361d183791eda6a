// Engines whose steps run on a device, on the null device: what is uploaded, copied, launched and captured. The kernels
// are stand-ins, since nothing computes them; tests/device/gpu_* has the ones that a GPU runs.
#include <thread>

#include "device_engine_util.h"

namespace deepjit {

namespace {

using namespace device_tests;

TEST(DeviceEngine, LaunchesWithTheRightGridAndArguments) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({10, 64});
  const auto calls = f.run(context, x, outputs);
  const NullDevice::Record& launch = launch_of(calls);
  EXPECT_EQ(launch.function, "kernel_0");
  EXPECT_EQ(launch.call.shape.threads, 256u);
  EXPECT_EQ(launch.call.shape.blocks, 1u);  // 10 rows of 16 chunks
  EXPECT_EQ(launch.call.shape.shared_bytes, 0u);
  const std::vector<uint64_t>& a = launch.call.arguments;
  ASSERT_EQ(a.size(), 7u);  // x, w, y, two params, rows, columns
  EXPECT_EQ((std::vector<uint64_t>(a.begin() + 3, a.end())), (std::vector<uint64_t>{3, 64, 10, 64}));
  EXPECT_EQ(a[0] % 256, 0u);
  EXPECT_EQ(a[2] % 256, 0u);
}

TEST(DeviceEngine, CopiesInOnceOutOnceAndWaitsOnce) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({10, 64});
  const auto calls = f.run(context, x, outputs);
  EXPECT_EQ(count(calls, Kind::COPY_IN), 1u);
  EXPECT_EQ(count(calls, Kind::COPY_OUT), 1u);
  EXPECT_EQ(count(calls, Kind::SYNCHRONIZE), 1u);
  EXPECT_EQ(calls.front().call.kind, Kind::COPY_IN);
  EXPECT_EQ(calls.back().call.kind, Kind::SYNCHRONIZE);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].dims, (Dims{10, 64}));
  EXPECT_EQ(std::memcmp(outputs[1].data, x.view().data, 10 * 64 * 4), 0);  // there and back
}

TEST(DeviceEngine, UploadsConstantsOnceForAllContexts) {
  const Fixture f(program_of(kText));
  Context first(f.engine, 1);
  const auto calls = f.device->take_calls();
  ASSERT_EQ(count(calls, Kind::COPY_IN), 1u);
  const Call& upload = calls.front().call;
  EXPECT_EQ(upload.bytes, 64u * 4);
  Context second(f.engine, 1);
  EXPECT_EQ(count(f.device->take_calls(), Kind::COPY_IN), 0u);
  std::vector<TensorView> outputs;
  const Tensor x = counted({2, 64});
  for (Context* context : {&first, &second}) {
    EXPECT_EQ(launch_of(f.run(*context, x, outputs)).call.arguments[1], reinterpret_cast<uint64_t>(upload.to));
  }
}

TEST(DeviceEngine, ReplaysAGraphFromTheSecondRunOn) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({10, 64});
  const auto first = f.run(context, x, outputs);
  EXPECT_EQ(count(first, Kind::GRAPH), 0u);
  const size_t blocks = f.device->blocks();
  for (int i = 0; i < 3; ++i) {
    const auto calls = f.run(context, x, outputs);
    EXPECT_EQ(count(calls, Kind::GRAPH), 1u);
    EXPECT_EQ(count(calls, Kind::LAUNCH), 1u);
    EXPECT_TRUE(launch_of(calls).call.replayed);
    EXPECT_EQ(launch_of(calls).call.arguments, launch_of(first).call.arguments);
    EXPECT_EQ(count(calls, Kind::SYNCHRONIZE), 1u);
    EXPECT_EQ(std::memcmp(outputs[1].data, x.view().data, 10 * 64 * 4), 0);
  }
  EXPECT_EQ(f.device->blocks(), blocks);
}

TEST(DeviceEngine, ReplaysTheLaunchesOfTheLastRun) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({10, 64});
  context.measure_device_time(true);
  EXPECT_EQ(code_of([&] { context.replay_us(); }), Code::STATE);
  f.run(context, x, outputs);
  EXPECT_GE(context.replay_us(), 0);
  const auto calls = f.device->take_calls();
  EXPECT_EQ(count(calls, Kind::GRAPH), 4u);
  EXPECT_EQ(count(calls, Kind::SYNCHRONIZE), 1u);
  EXPECT_EQ(count(calls, Kind::COPY_IN), 0u);
  context.measure_device_time(false);
  f.run(context, x, outputs);
  EXPECT_EQ(code_of([&] { context.replay_us(); }), Code::STATE);  // it told no time
}

// Copies of inputs and outputs stand outside, and so do delays of the host.
TEST(DeviceEngine, AGraphTellsTheTimeOfItsLaunches) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({10, 64});
  f.run(context, x, outputs);
  EXPECT_EQ(count(f.run(context, x, outputs), Kind::RECORD), 0u);
  for (int i = 0; i < 2; ++i) {
    context.measure_device_time(true);
    if (i == 0) f.run(context, x, outputs);  // another graph
    const auto calls = f.run(context, x, outputs);
    std::vector<Kind> replayed;
    for (const auto& record : calls) {
      if (record.call.replayed) replayed.push_back(record.call.kind);
    }
    EXPECT_EQ(replayed, (std::vector<Kind>{Kind::RECORD, Kind::LAUNCH, Kind::COPY, Kind::RECORD}));
    EXPECT_EQ(count(calls, Kind::RECORD), 2u);
    EXPECT_GE(context.device_us(), 0);
    context.measure_device_time(false);
    EXPECT_EQ(count(f.run(context, x, outputs), Kind::RECORD), 0u);
  }
}

TEST(DeviceEngine, ALargerShapeMovesTheMemoryAndTheGraphWithIt) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor small = counted({3, 64});
  const Tensor large = counted({30000, 64});
  for (int i = 0; i < 2; ++i) f.run(context, small, outputs);
  const auto calls = f.run(context, large, outputs);
  const Call& call = launch_of(calls).call;
  EXPECT_EQ(call.shape.blocks, 8u * 132);  // 1875 blocks find work, 8 of 256 threads fit a processor
  EXPECT_EQ(call.arguments[5], 30000u);
  const auto base = call.arguments[0];
  for (size_t i = 0; i < 3; ++i) {
    const auto again = f.run(context, small, outputs);
    EXPECT_EQ(launch_of(again).call.arguments[5], 3u);
    EXPECT_NEAR(static_cast<double>(launch_of(again).call.arguments[0]), static_cast<double>(base), 8 << 20);
    EXPECT_EQ(count(again, Kind::GRAPH), i == 0 ? 0u : 1u);
    EXPECT_EQ(std::memcmp(outputs[1].data, small.view().data, 3 * 64 * 4), 0);
  }
}

TEST(DeviceEngine, OutputsGoWhereTheCallerWants) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({4, 64});
  std::vector<std::vector<float>> own(2, std::vector<float>(4 * 64));
  const std::vector<TensorView> inputs = {x.view()};
  context.run(inputs, outputs, [&](size_t i, const TensorDesc&) { return own[i].data(); });
  EXPECT_EQ(outputs[0].data, own[0].data());
  EXPECT_EQ(std::memcmp(own[1].data(), x.view().data, 4 * 64 * 4), 0);
}

TEST(DeviceEngine, KeepsRowsInSharedMemoryWhereTheyFit) {
  Program program = program_of(kText);
  for (Step& step : program.steps) {
    if (step.op == kRegionOp) step.tactic = stand_in("rows", 90, 2);
  }
  const Fixture f(std::move(program));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Call small = launch_of(f.run(context, counted({10, 64}), outputs)).call;
  EXPECT_EQ(small.shape.shared_bytes, 2u * 2 * 64 * 4);  // two buffers of two rows
  EXPECT_EQ(small.shape.blocks, 5u);
}

TEST(DeviceEngine, AKernelWithoutRoomForItsRowsKeepsNone) {
  Program program = program_of(R"(graph @main(%x: float32[N,M]) -> (%y) { %a = Tanh(%x) %y = Neg(%a) })");
  for (Step& step : program.steps) {
    if (step.op == kRegionOp) step.tactic = stand_in("rows", 90, 2);
  }
  const Fixture f(std::move(program));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  EXPECT_EQ(launch_of(f.run(context, counted({2, 100}), outputs)).call.shape.shared_bytes, 1600u);
  EXPECT_EQ(launch_of(f.run(context, counted({2, 100'000}), outputs)).call.shape.shared_bytes, 0u);
  EXPECT_EQ(count(f.run(context, counted({0, 100}), outputs), Kind::LAUNCH), 0u);  // nothing to do
}

TEST(DeviceEngine, ValuesBetweenStepsStayOnTheDevice) {
  Program program = program_of(R"(graph @main(%x: float32[N,64]) -> (%y) {
    %a = Softmax(%x) {axis=1}
    %b = ReduceSum(%a) {axes=[0], keepdims=1}
    %y = Sub(%x, %b)
  })");
  int kernels = 0;
  for (Step& step : program.steps) step.tactic = stand_in("step_" + std::to_string(kernels++), 90);
  const Fixture f(std::move(program));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const auto calls = f.run(context, counted({5, 64}), outputs);
  EXPECT_GE(count(calls, Kind::LAUNCH), 2u);
  EXPECT_EQ(count(calls, Kind::COPY_IN) + count(calls, Kind::COPY_OUT), 2u);
}

TEST(DeviceEngine, ABranchThatAnInputDecidesIsTaken) {
  const Fixture f(program_of(R"(graph @main(%x: float32[N,64], %c: bool[]) -> (%y) {
    %w = constant float32[64] random(1)
    %y = If(%c) then { %t = Mul(%x, %w) -> (%t) } else { -> (%x) }
  })"));
  Context context(f.engine, 1);
  const Tensor x = counted({4, 64});
  Tensor condition(DType::BOOL, {});
  const std::vector<TensorView> inputs = {x.view(), condition.view()};
  std::vector<TensorView> outputs;
  for (bool taken : {true, false, true}) {
    *condition.as<bool>() = taken;
    f.device->take_calls();
    context.run(inputs, outputs);
    const auto calls = f.device->take_calls();
    EXPECT_EQ(count(calls, Kind::LAUNCH), taken ? 1u : 0u);
    if (taken) {
      EXPECT_NE(launch_of(calls).call.arguments[1], 0u);
    } else {
      EXPECT_EQ(std::memcmp(outputs[0].data, x.view().data, 4 * 64 * 4), 0);
    }
  }
}

TEST(DeviceEngine, CodeForAnotherArchitectureIsRefused) {
  for (const auto& [built, device, runs] : std::vector<std::tuple<int, int, bool>>{
           {90, 90, true}, {80, 86, true}, {86, 80, false}, {80, 90, false}, {75, 90, false}}) {
    Program program = program_of(kText, "null:" + std::to_string(device));
    for (Step& step : program.steps) {
      if (step.op == kRegionOp) step.tactic = stand_in("kernel", built);
    }
    const auto engine = std::make_shared<const Engine>(std::move(program), nullptr);
    Context context(engine, 1);
    const Tensor x = counted({2, 64});
    const std::vector<TensorView> inputs = {x.view()};
    std::vector<TensorView> outputs;
    EXPECT_EQ(code_of([&] { context.run(inputs, outputs); }), runs ? Code::OK : Code::ENGINE_INCOMPATIBLE)
        << built << " on " << device;
  }
}

TEST(DeviceEngine, LaunchDataOfAnotherVersionAreRefused) {
  for (const auto& [format, code] : std::vector<std::pair<std::string, Code>>{
           {"cuda launch data 1", Code::ENGINE_INCOMPATIBLE}, {"no launch data", Code::ENGINE_RANGE}}) {
    Program program = program_of(kText, "null:90");
    for (Step& step : program.steps) {
      if (step.op != kRegionOp) continue;
      step.tactic = stand_in("kernel", 90);
      step.tactic.packed.back().format = format;
    }
    const auto engine = std::make_shared<const Engine>(std::move(program), nullptr);
    Context context(engine, 1);
    const Tensor x = counted({2, 64});
    const std::vector<TensorView> inputs = {x.view()};
    std::vector<TensorView> outputs;
    EXPECT_EQ(code_of([&] { context.run(inputs, outputs); }), code) << format;
  }
}

TEST(DeviceEngine, RunsOnTheKindThatItWasBuiltFor) {
  EXPECT_EQ(code_of([] { Engine(program_of(kText), nullptr, "cpu"); }), Code::ENGINE_INCOMPATIBLE);
  EXPECT_EQ(code_of([] { Engine(program_of(kText, "cpu"), nullptr, "cuda"); }), Code::ENGINE_INCOMPATIBLE);
  EXPECT_EQ(code_of([] { Engine(program_of(kText, "toaster"), nullptr); }), Code::ENGINE_RANGE);
  EXPECT_EQ(Engine(program_of(kText), nullptr, "null:80").device_name(), "null:80");
}

TEST(DeviceEngine, ABadInputLeavesTheContextUsable) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor wrong = counted({2, 63});
  const std::vector<TensorView> inputs = {wrong.view()};
  EXPECT_EQ(code_of([&] { context.run(inputs, outputs); }), Code::INPUT_SHAPE);
  EXPECT_EQ(count(f.run(context, counted({2, 64}), outputs), Kind::LAUNCH), 1u);
}

TEST(DeviceEngine, TimesStepsAndRuns) {
  struct Steps : StepTimer {
    int seen = 0;
    void on_step(const Step&, double us) override {
      ++seen;
      EXPECT_GE(us, 0);
    }
  } steps;
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({2, 64});
  f.run(context, x, outputs);
  EXPECT_EQ(context.device_us(), 0);
  context.measure_device_time(true);
  context.set_observer(&steps);
  EXPECT_EQ(count(f.run(context, x, outputs), Kind::GRAPH), 0u);
  EXPECT_EQ(steps.seen, 1);
  context.set_observer(nullptr);
  f.run(context, x, outputs);
  EXPECT_GT(context.device_us(), 0);
  EXPECT_EQ(count(f.run(context, x, outputs), Kind::GRAPH), 1u);
  EXPECT_GT(context.device_us(), 0);
}

TEST(DeviceEngine, ContextsOfManyThreadsDoNotMix) {
  const Fixture f(program_of(kText));
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Context context(f.engine, 1);
      std::vector<TensorView> outputs;
      const Tensor x = counted({t + 1, 64});
      const std::vector<TensorView> inputs = {x.view()};
      for (int i = 0; i < 20; ++i) {
        context.run(inputs, outputs);
        if (std::memcmp(outputs[1].data, x.view().data, static_cast<size_t>(x.bytes())) == 0) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 80);
}

}  // namespace

}  // namespace deepjit
