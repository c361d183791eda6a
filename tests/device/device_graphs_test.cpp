// How a context's launches become graphs beside its runs, on the null device: what the first run waits for, which
// graphs are made, turned into others or given up.
#include <condition_variable>
#include <thread>

#include "base/limits.h"
#include "device_engine_util.h"
#include "runtime/background.h"
#include "runtime/graph_cache.h"

namespace deepjit {

static void PrintTo(const GraphCounts& c, std::ostream* out) {
  *out << "direct " << c.direct << " replayed " << c.replayed << " captured " << c.captured << " instantiated "
       << c.instantiated << " updated " << c.updated << " failed " << c.failed;
}

namespace {

using namespace device_tests;

// Inputs and outputs of kText in memory of the device.
class OnDevice {
 public:
  OnDevice(device::Device& device, int64_t rows)
      : rows_(rows),
        x_(device, device::Memory::Kind::DEVICE),
        y_(device, device::Memory::Kind::DEVICE),
        z_(device, device::Memory::Kind::DEVICE) {
    for (device::Memory* memory : {&x_, &y_, &z_}) memory->ensure(static_cast<size_t>(rows) * 64 * 4);
    std::iota(static_cast<float*>(x_.data()), static_cast<float*>(x_.data()) + rows * 64, static_cast<float>(rows));
  }
  bool run(Context& context) {
    const std::vector<TensorView> inputs = {{DType::FLOAT32, {rows_, 64}, x_.data()}};
    const std::vector<Side> memory = {Side::DEVICE};
    RunRequest request;
    request.inputs = inputs;
    request.memory = memory;
    request.place = [&](size_t i, const TensorDesc&) {
      return OutputPlace{i == 0 ? y_.data() : z_.data(), Side::DEVICE};
    };
    std::vector<RunOutput> outputs;
    context.run(request, outputs);
    return std::memcmp(x_.data(), z_.data(), static_cast<size_t>(rows_) * 64 * 4) == 0;
  }

 private:
  int64_t rows_;
  device::Memory x_, y_, z_;
};

TEST(DeviceGraphs, TheFirstRunIsLaunchedAtOnceAndTheOthersAreReplayed) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({10, 64});
  EXPECT_FALSE(launch_of(f.run(context, x, outputs)).call.replayed);
  EXPECT_EQ(context.graph_counts(), (GraphCounts{1, 0, 1, 1, 0, 0}));
  const size_t blocks = f.device->blocks();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(launch_of(f.run(context, x, outputs)).call.replayed);
  EXPECT_EQ(context.graph_counts(), (GraphCounts{1, 5, 1, 1, 0, 0}));
  EXPECT_EQ(f.device->blocks(), blocks);
}

// Nobody waits for a graph: a run goes one way or the other, and is right.
TEST(DeviceGraphs, RunsAreRightWhileGraphsAreMade) {
  const Fixture f(program_of(kText));
  constexpr int kThreads = 3;
  constexpr size_t kRuns = 60;
  std::atomic<size_t> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Context context(f.engine, 1);
      std::vector<OnDevice> sets;
      for (int64_t rows = 1; rows <= 6; ++rows) sets.emplace_back(*f.device, rows + t);
      for (size_t i = 0; i < kRuns; ++i) right += sets[i * i % sets.size()].run(context) ? 1 : 0;
      const GraphCounts counts = context.graph_counts();
      if (counts.direct + counts.replayed != kRuns) right = 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kRuns);
}

TEST(DeviceGraphs, AContextMayGoWhileItsGraphIsMade) {
  const Fixture f(program_of(kText));
  const Tensor x = counted({10, 64});
  const std::vector<TensorView> inputs = {x.view()};
  for (int i = 0; i < 200; ++i) {
    Context context(f.engine, 1);
    std::vector<TensorView> outputs;
    context.run(inputs, outputs);
    EXPECT_EQ(std::memcmp(outputs[1].data, x.view().data, static_cast<size_t>(x.bytes())), 0);
  }
}

TEST(DeviceGraphs, AFewSetsOfBuffersHaveAGraphEach) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<OnDevice> sets;
  for (int i = 0; i < 6; ++i) sets.emplace_back(*f.device, 5);
  const auto run = [&](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      EXPECT_TRUE(sets[i].run(context));
      context.finish();
    }
  };
  run(0, 4);
  EXPECT_EQ(context.graph_counts(), (GraphCounts{4, 0, 4, 4, 0, 0}));
  run(0, 4);
  EXPECT_EQ(context.graph_counts(), (GraphCounts{4, 4, 4, 4, 0, 0}));
  // More of them in turn do not drive each other out.
  for (int i = 0; i < 4; ++i) run(0, 6);
  EXPECT_EQ(context.graph_counts(), (GraphCounts{4 + 8, 4 + 16, 4, 4, 0, 0}));
  // But one takes the place of those that have not been used for long.
  for (int i = 0; i < 20; ++i) run(4, 6);
  const GraphCounts counts = context.graph_counts();
  EXPECT_EQ(counts.instantiated, 4u);
  EXPECT_EQ(counts.updated, 2u);
  EXPECT_EQ(counts.captured, 6u);
  run(4, 6);
  EXPECT_EQ(context.graph_counts().replayed, counts.replayed + 2);
}

TEST(DeviceGraphs, SetsThatNeverComeAgainCostNothing) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<OnDevice> sets;
  for (int i = 0; i < 40; ++i) {
    sets.emplace_back(*f.device, 5);
    EXPECT_TRUE(sets.back().run(context));
    context.finish();
  }
  EXPECT_EQ(context.graph_counts(), (GraphCounts{40, 0, 4, 4, 0, 0}));
}

// Its own block moves when a larger shape comes: graphs of the smaller one are turned into those that fit.
TEST(DeviceGraphs, GraphsThatFitNoMoreAreTurnedIntoOthers) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  f.run(context, counted({3, 64}), outputs);
  f.run(context, counted({30000, 64}), outputs);
  EXPECT_EQ(context.graph_counts(), (GraphCounts{2, 0, 2, 2, 0, 0}));
  f.run(context, counted({3, 64}), outputs);
  EXPECT_EQ(context.graph_counts(), (GraphCounts{3, 0, 3, 2, 1, 0}));
  EXPECT_TRUE(launch_of(f.run(context, counted({3, 64}), outputs)).call.replayed);
}

TEST(DeviceGraphs, AShapeThatIsForgottenLeavesItsGraphToANewOne) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const auto most = static_cast<int64_t>(limits::bindings);
  for (int64_t rows = most + 3; rows > 0; --rows) f.run(context, counted({rows, 64}), outputs);
  const GraphCounts counts = context.graph_counts();
  EXPECT_EQ(counts.instantiated, static_cast<size_t>(most));
  EXPECT_EQ(counts.updated, 3u);
  const auto again = f.run(context, counted({1, 64}), outputs);
  EXPECT_TRUE(launch_of(again).call.replayed);
  EXPECT_EQ(launch_of(again).call.arguments[5], 1u);
}

TEST(DeviceGraphs, WhatCannotBeCapturedIsLaunchedOneByOne) {
  const Fixture f(program_of(kText));
  f.device->refuse_captures(true);
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({10, 64});
  context.measure_device_time(true);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(launch_of(f.run(context, x, outputs)).call.replayed);
    EXPECT_EQ(std::memcmp(outputs[1].data, x.view().data, static_cast<size_t>(x.bytes())), 0);
    EXPECT_GT(context.device_us(), 0);
  }
  EXPECT_EQ(context.graph_counts(), (GraphCounts{4, 0, 0, 0, 0, 1}));
  EXPECT_EQ(code_of([&] { context.replay_us(); }), Code::STATE);
  f.device->refuse_captures(false);
}

// What a run cannot finish leaves nothing half done.
TEST(DeviceGraphs, ARunThatFailsIsFollowedByOneThatHasAGraph) {
  const Fixture f(program_of(kText));
  Context context(f.engine, 1);
  std::vector<TensorView> outputs;
  const Tensor x = counted({10, 64});
  const std::vector<TensorView> inputs = {x.view()};
  int asked = 0;
  EXPECT_EQ(code_of([&] {
              context.run(inputs, outputs, [&](size_t, const TensorDesc&) -> void* {
                if (++asked == 2) throw Error(Code::ARGUMENT, "not today");
                return nullptr;
              });
            }),
            Code::ARGUMENT);
  f.run(context, x, outputs);
  EXPECT_TRUE(launch_of(f.run(context, x, outputs)).call.replayed);
}

TEST(BackgroundWorker, DoesJobsInOrderAndLeavesTheRestAtTheEnd) {
  std::vector<int> done;
  std::mutex mutex;
  std::condition_variable changed;
  auto worker = std::make_unique<BackgroundWorker>();
  for (int i = 0; i < 100; ++i) {
    worker->post([&, i] {
      const std::lock_guard<std::mutex> lock(mutex);
      done.push_back(i);
      changed.notify_all();
    });
  }
  {
    std::unique_lock<std::mutex> lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return done.size() == 100; }));
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
  worker.reset();
  BackgroundWorker idle;
}

TEST(FairMutex, ServesInTheOrderOfArrival) {
  FairMutex mutex;
  std::vector<int> order;
  mutex.lock();
  std::vector<std::thread> threads;
  std::atomic<int> begun{0};
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      ++begun;
      const std::lock_guard<FairMutex> lock(mutex);
      order.push_back(i);
    });
    while (begun <= i) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it waits by now
  }
  mutex.unlock();
  {
    const std::lock_guard<FairMutex> lock(mutex);  // behind all of them
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

}  // namespace deepjit
