// Inputs and outputs on the device, streams of the caller and runs that are not waited for, through the C++ API and the
// C ABI. Run against the stand-in driver, whose streams do nothing until somebody waits, by
// tests/device/fake_cuda_test.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "../device/stand_in.h"
#include "deepjit/deepjit.h"
#include "deepjit/deepjit.hpp"

namespace {

using deepjit::Context;
using deepjit::DataType;
using deepjit::Engine;
using deepjit::Input;
using deepjit::MemoryKind;
using deepjit::Output;
using deepjit::RunOptions;
using deepjit::StandIn;
using deepjit::StandInWords;
using deepjit::Target;

constexpr size_t kCount = 1000;

class OnStandIn : public testing::Test {
 protected:
  void SetUp() override {
    fake_ = deepjit::stand_in();
    if (fake_ == nullptr) GTEST_SKIP() << "the driver is not the stand-in";
    const std::vector<uint8_t> bytes = deepjit::twice_engine();
    engine_.emplace(deepjit::load(std::as_bytes(std::span(bytes))));
    context_.emplace(engine_->create_context());
    fake_->take_counts();
  }
  static Input input(const void* data, MemoryKind memory = MemoryKind::DEVICE, size_t count = kCount) {
    return {"x", DataType::INT64, {1, static_cast<int64_t>(count)}, data, memory};
  }
  static Target target(const std::string& name, void* data, MemoryKind memory = MemoryKind::DEVICE,
                       size_t count = kCount) {
    return {name, DataType::INT64, {1, static_cast<int64_t>(count)}, data, memory};
  }
  static RunOptions into(const StandInWords& y, const StandInWords& z) {
    RunOptions options;
    options.outputs = {target("y", y.data()), target("z", z.data())};
    return options;
  }
  template <typename F>
  static std::string failure(int code, F&& body) {
    try {
      body();
    } catch (const deepjit::Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return e.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }

  const StandIn* fake_ = nullptr;
  std::optional<Engine> engine_;
  std::optional<Context> context_;
};

TEST_F(OnStandIn, ARunOnTheHostComputes) {
  std::vector<int64_t> x(kCount);
  std::iota(x.begin(), x.end(), 5);
  for (int i = 0; i < 4; ++i) {
    const std::vector<Output>& outputs = context_->run({input(x.data(), MemoryKind::HOST)});
    ASSERT_EQ(outputs.size(), 2u);
    for (size_t k = 0; k < kCount; ++k) ASSERT_EQ(static_cast<const int64_t*>(outputs[0].data)[k], 2 * x[k] + 1);
    EXPECT_EQ(outputs[0].memory, MemoryKind::HOST);
    EXPECT_EQ(std::memcmp(outputs[1].data, x.data(), kCount * 8), 0);
  }
  EXPECT_EQ(engine_->device(), "cuda:0");
}

TEST_F(OnStandIn, WhatLiesOnTheDeviceIsUsedThere) {
  const StandInWords x(kCount, FAKE_CUDA_HERE, 3), y(kCount), z(kCount);
  for (int i = 0; i < 4; ++i) {
    const std::vector<Output>& outputs = context_->run({input(x.data())}, into(y, z));
    EXPECT_TRUE(y.twice(3, kCount));
    EXPECT_TRUE(z.same(3, kCount));
    EXPECT_EQ(outputs[0].data, y.data());
    EXPECT_EQ(outputs[1].memory, MemoryKind::DEVICE);
    context_->synchronize();
  }
  const fake_cuda_counts counts = fake_->take_counts();
  EXPECT_EQ(counts.bytes_in + counts.bytes_out, 0u);
  EXPECT_EQ(counts.bytes_within, 4 * kCount * 8);  // z is a copy of x
  EXPECT_EQ(counts.captures, 1u);
  EXPECT_EQ(counts.graphs_made, 1u);
  EXPECT_EQ(counts.graphs_uploaded, 1u);
  EXPECT_EQ(counts.graphs_launched, 3u);
}

TEST_F(OnStandIn, HostAndDeviceCanBeMixed) {
  const StandInWords x(kCount, FAKE_CUDA_HERE, 9), y(kCount);
  std::vector<int64_t> z(kCount);
  RunOptions options;
  options.outputs = {target("z", z.data(), MemoryKind::HOST)};
  const std::vector<Output>& outputs = context_->run({input(x.data())}, options);
  EXPECT_EQ(static_cast<const int64_t*>(outputs[0].data)[7], 2 * (9 + 7) + 1);
  EXPECT_EQ(outputs[1].data, z.data());
  EXPECT_EQ(z[7], 16);
  const std::vector<int64_t> on_host = z;
  options.outputs = {target("y", y.data())};
  context_->run({input(on_host.data(), MemoryKind::HOST)}, options);
  EXPECT_TRUE(y.twice(9, kCount));
}

TEST_F(OnStandIn, SetsOfBuffersKeepTheirGraphs) {
  for (size_t sets : {2u, 4u, 6u}) {
    std::vector<std::unique_ptr<StandInWords>> x, y, z;
    for (size_t i = 0; i < sets; ++i) {
      x.push_back(std::make_unique<StandInWords>(kCount, FAKE_CUDA_HERE, static_cast<int64_t>(100 * i)));
      y.push_back(std::make_unique<StandInWords>(kCount));
      z.push_back(std::make_unique<StandInWords>(kCount));
    }
    Context context = engine_->create_context();
    fake_->take_counts();
    for (size_t run = 0; run < 24; ++run) {
      const size_t i = run % sets;
      std::fill_n(y[i]->data(), kCount, -1);
      context.run({input(x[i]->data())}, into(*y[i], *z[i]));
      ASSERT_TRUE(y[i]->twice(static_cast<int64_t>(100 * i), kCount)) << sets << " sets, run " << run;
      ASSERT_TRUE(z[i]->same(static_cast<int64_t>(100 * i), kCount));
      context.synchronize();
    }
    const fake_cuda_counts counts = fake_->take_counts();
    const size_t graphs = std::min<size_t>(sets, 4);
    EXPECT_EQ(counts.graphs_made, graphs) << sets;
    EXPECT_EQ(counts.graphs_updated, 0u) << sets;
    EXPECT_EQ(counts.graphs_launched, 24 / sets * graphs - graphs) << sets;
  }
}

// Two sets come for long enough to take the graphs of others.
TEST_F(OnStandIn, AGraphIsTurnedIntoThatOfOtherBuffers) {
  std::vector<std::unique_ptr<StandInWords>> x, y, z;
  for (size_t i = 0; i < 6; ++i) {
    x.push_back(std::make_unique<StandInWords>(kCount, FAKE_CUDA_HERE, static_cast<int64_t>(100 * i)));
    y.push_back(std::make_unique<StandInWords>(kCount));
    z.push_back(std::make_unique<StandInWords>(kCount));
  }
  fake_->take_counts();
  for (size_t run = 0; run < 44; ++run) {
    const size_t i = run < 4 ? run : 4 + run % 2;
    std::fill_n(y[i]->data(), kCount, -1);
    context_->run({input(x[i]->data())}, into(*y[i], *z[i]));
    ASSERT_TRUE(y[i]->twice(static_cast<int64_t>(100 * i), kCount)) << run;
    context_->synchronize();
  }
  const fake_cuda_counts counts = fake_->take_counts();
  EXPECT_EQ(counts.graphs_made, 4u);
  EXPECT_EQ(counts.graphs_updated, 2u);
  EXPECT_GE(counts.graphs_launched, 20u);
}

TEST_F(OnStandIn, AddressesThatAreNotAlignedAreCopiedThere) {
  const StandInWords x(kCount + 1, FAKE_CUDA_HERE, 3), y(kCount + 1), z(kCount + 1);
  RunOptions options;
  options.outputs = {target("y", y.data() + 1), target("z", z.data() + 1)};
  const std::vector<Output>& outputs = context_->run({input(x.data() + 1)}, options);
  EXPECT_EQ(outputs[0].data, y.data() + 1);
  EXPECT_EQ(outputs[0].memory, MemoryKind::DEVICE);
  for (size_t k = 1; k <= kCount; ++k) ASSERT_EQ(y.data()[k], 2 * (3 + static_cast<int64_t>(k)) + 1);
  EXPECT_EQ(y.data()[0], 0);
  const fake_cuda_counts counts = fake_->take_counts();
  EXPECT_EQ(counts.bytes_in + counts.bytes_out, 0u);
  EXPECT_EQ(counts.bytes_within, 4 * kCount * 8);
}

TEST_F(OnStandIn, AnOutputMayTakeAnInputsPlace) {
  const StandInWords x(kCount, FAKE_CUDA_HERE, 3), z(kCount);
  RunOptions options;
  options.outputs = {target("y", x.data()), target("z", z.data())};
  context_->run({input(x.data())}, options);
  EXPECT_TRUE(x.twice(3, kCount));
  EXPECT_TRUE(z.same(3, kCount));
}

TEST_F(OnStandIn, MemoryThatIsNotWhereItIsSaidToBeIsRefused) {
  const StandInWords x(kCount), y(kCount), far(kCount, FAKE_CUDA_ELSEWHERE), pinned(kCount, FAKE_CUDA_PINNED);
  std::vector<int64_t> host(kCount);
  const auto run = [&](const void* in, void* out) {
    RunOptions options;
    options.outputs = {target("y", out)};
    context_->run({input(in)}, options);
  };
  EXPECT_NE(
      failure(804, [&] { run(host.data(), y.data()); }).find("input \"x\": its address is not in memory of cuda:0"),
      std::string::npos);
  EXPECT_NE(failure(804, [&] { run(far.data(), y.data()); }).find("of another device"), std::string::npos);
  failure(804, [&] { run(pinned.data(), y.data()); });
  EXPECT_NE(failure(804, [&] { run(x.data(), host.data()); }).find("output \"y\""), std::string::npos);
  failure(804, [&] { run(x.data(), nullptr); });
  failure(804, [&] { run(nullptr, y.data()); });
  run(x.data(), y.data());  // the context is as good as before
  EXPECT_TRUE(y.twice(0, kCount));
}

TEST_F(OnStandIn, TargetsAreOfTheOutputsTypeAndShape) {
  const StandInWords x(kCount), y(2 * kCount);
  const auto run = [&](const std::vector<Target>& targets) {
    RunOptions options;
    options.outputs = targets;
    context_->run({input(x.data())}, options);
  };
  Target wrong = target("y", y.data());
  wrong.dtype = DataType::FLOAT64;
  EXPECT_NE(failure(804, [&] { run({wrong}); }).find("float64"), std::string::npos);
  EXPECT_NE(failure(804, [&] { run({target("y", y.data(), MemoryKind::DEVICE, 2 * kCount)}); }).find("2000"),
            std::string::npos);
  failure(804, [&] { run({target("nobody", y.data())}); });
  failure(804, [&] { run({target("y", y.data()), target("y", y.data())}); });
  EXPECT_NE(failure(804,
                    [&] {
                      run({target("y", y.data()), target("z", y.data() + 32)});
                    })
                .find("overlaps"),
            std::string::npos);
  failure(804, [&] { run({target("y", y.data(), static_cast<MemoryKind>(7))}); });
}

TEST_F(OnStandIn, RunsThatAreNotWaitedForComeLater) {
  const StandInWords x(kCount, FAKE_CUDA_HERE, -1), y(kCount), z(kCount);
  void* stream = fake_->stream();
  std::vector<int64_t> written(kCount);
  for (int64_t round = 0; round < 5; ++round) {
    std::iota(written.begin(), written.end(), 10 * round);
    std::fill_n(y.data(), kCount, -7);
    fake_->write(x.data(), written.data(), kCount * 8, stream);
    const std::vector<Output>& outputs = context_->run_async({input(x.data())}, stream, into(y, z));
    EXPECT_EQ(outputs[0].data, y.data());
    EXPECT_EQ(y.data()[0], -7);  // so far
    fake_->finish(stream);
    EXPECT_TRUE(y.twice(10 * round, kCount));
    EXPECT_TRUE(z.same(10 * round, kCount));
  }
}

TEST_F(OnStandIn, RunsOfAContextComeOneAfterAnotherOnAnyStream) {
  const StandInWords x(kCount, FAKE_CUDA_HERE, 1), y(kCount), z(kCount), w(kCount), v(kCount);
  void* first = fake_->stream();
  void* second = fake_->stream();
  for (int i = 0; i < 3; ++i) {
    std::fill_n(y.data(), kCount, -1);
    context_->run_async({input(x.data())}, first, into(y, z));
    context_->run_async({input(y.data())}, second, into(w, v));
    fake_->finish(second);
    EXPECT_TRUE(v.twice(1, kCount)) << i;  // what it read
    EXPECT_EQ(w.data()[5], 2 * (2 * 6 + 1) + 1);
  }
  context_->run_async({input(x.data())}, first, into(y, z));
  context_->run({input(y.data())}, into(w, v));  // on the context's own
  EXPECT_EQ(w.data()[5], 2 * (2 * 6 + 1) + 1);
  std::fill_n(y.data(), kCount, -1);
  context_->run_async({input(x.data())}, nullptr, into(y, z));  // CUDA's default stream
  context_->synchronize();
  EXPECT_TRUE(y.twice(1, kCount));
}

TEST_F(OnStandIn, ARunComesAfterStreamsThatItNames) {
  const StandInWords x(kCount), y(kCount), z(kCount);
  void* stream = fake_->stream();
  std::vector<int64_t> written(kCount);
  std::iota(written.begin(), written.end(), 77);
  fake_->write(x.data(), written.data(), kCount * 8, stream);
  RunOptions options = into(y, z);
  options.after = {stream};
  context_->run({input(x.data())}, options);
  EXPECT_TRUE(y.twice(77, kCount));
  std::iota(written.begin(), written.end(), 78);
  fake_->write(x.data(), written.data(), kCount * 8, stream);
  options = into(y, z);
  options.stream = stream;  // waited for, on the stream of the caller
  context_->run({input(x.data())}, options);
  EXPECT_TRUE(y.twice(78, kCount));
}

TEST_F(OnStandIn, WithoutAWaitHostMemoryIsPageLocked) {
  const StandInWords x(kCount, FAKE_CUDA_PINNED, 4), y(kCount, FAKE_CUDA_PINNED), z(kCount);
  std::vector<int64_t> host(kCount);
  void* stream = fake_->stream();
  RunOptions options;
  options.outputs = {target("y", y.data(), MemoryKind::HOST), target("z", z.data())};
  context_->run_async({input(x.data(), MemoryKind::HOST)}, stream, options);
  EXPECT_EQ(y.data()[1], 1);
  context_->synchronize();
  EXPECT_TRUE(y.twice(4, kCount));
  EXPECT_TRUE(z.same(4, kCount));
  EXPECT_NE(failure(804, [&] { context_->run_async({input(host.data(), MemoryKind::HOST)}, stream, options); })
                .find("page-locked"),
            std::string::npos);
  options.outputs = {target("y", host.data(), MemoryKind::HOST)};
  failure(804, [&] { context_->run_async({input(x.data(), MemoryKind::HOST)}, stream, options); });
}

TEST_F(OnStandIn, LargePageLockedMemoryIsCopiedFromAndToWhereItLies) {
  constexpr size_t kMany = 100'000;
  const StandInWords x(kMany, FAKE_CUDA_PINNED, 4), y(kMany, FAKE_CUDA_PINNED), z(kMany, FAKE_CUDA_PINNED);
  RunOptions options;
  options.outputs = {target("y", y.data(), MemoryKind::HOST, kMany), target("z", z.data(), MemoryKind::HOST, kMany)};
  const size_t before = context_->memory_bytes() - context_->device_bytes();
  for (int i = 0; i < 3; ++i) {
    context_->run({input(x.data(), MemoryKind::HOST, kMany)}, options);
    EXPECT_TRUE(y.twice(4, kMany));
    EXPECT_TRUE(z.same(4, kMany));
  }
  EXPECT_EQ(context_->memory_bytes() - context_->device_bytes(), before);  // nothing was staged
  EXPECT_EQ(fake_->take_counts().bytes_in, 3 * kMany * 8);
}

TEST_F(OnStandIn, OutputsThatStayAreTheHolders) {
  const StandInWords x(kCount, FAKE_CUDA_HERE, 2);
  RunOptions options;
  options.outputs_on_device = true;
  const void* first = context_->run({input(x.data())}, options)[0].data;
  EXPECT_EQ(context_->run({input(x.data())}, options)[0].data, first);  // nobody held it
  const deepjit::DeviceMemory held = context_->run({input(x.data())}, options)[0].owner;
  ASSERT_TRUE(held);
  EXPECT_EQ(held.data(), first);
  EXPECT_GE(held.bytes(), kCount * 8);
  EXPECT_EQ(held.device(), "cuda:0");
  EXPECT_FALSE(held.stream().has_value());
  const StandInWords other(kCount, FAKE_CUDA_HERE, 500);
  const Output& second = context_->run({input(other.data())}, options)[0];
  EXPECT_NE(second.data, first);
  EXPECT_EQ(second.memory, MemoryKind::DEVICE);
  context_.reset();
  engine_.reset();
  EXPECT_EQ(static_cast<const int64_t*>(held.data())[10], 2 * 12 + 1);  // it outlives both
}

TEST_F(OnStandIn, SharedOutputsAreNotUsedAgain) {
  const StandInWords x(kCount);
  RunOptions options;
  options.outputs_on_device = true;
  const uint64_t before = fake_->allocated();
  for (int i = 0; i < 10; ++i) context_->run({input(x.data())}, options)[0].owner.share();
  EXPECT_LE(fake_->allocated() - before, 4 * kCount * 8 + 4096);  // and are freed
  const deepjit::DeviceMemory kept = context_->run({input(x.data())}, options)[0].owner;
  kept.share();
  const void* data = kept.data();
  for (int i = 0; i < 4; ++i) EXPECT_NE(context_->run({input(x.data())}, options)[0].data, data);
}

TEST_F(OnStandIn, AnOutputTellsWhenItIsReady) {
  const StandInWords x(kCount, FAKE_CUDA_HERE, 2), copy(kCount), z(kCount);
  void* stream = fake_->stream();
  void* reader = fake_->stream();
  const deepjit::DeviceMemory y = context_->run_async({input(x.data())}, stream)[0].owner;
  EXPECT_EQ(y.stream(), stream);
  y.wait_on(reader);
  Context next = engine_->create_context();
  next.run_async({input(y.data())}, reader, into(copy, z));
  fake_->finish(reader);
  EXPECT_TRUE(z.twice(2, kCount));
  const deepjit::DeviceMemory again = context_->run_async({input(x.data())}, stream)[0].owner;
  again.wait();
  EXPECT_EQ(static_cast<const int64_t*>(again.data())[3], 2 * 5 + 1);
}

TEST_F(OnStandIn, AContextMayEndBeforeItsRuns) {
  const StandInWords x(kCount, FAKE_CUDA_HERE, 2), y(kCount), z(kCount);
  context_->run_async({input(x.data())}, fake_->stream(), into(y, z));
  context_.reset();
  EXPECT_TRUE(y.twice(2, kCount));
}

TEST_F(OnStandIn, AValueThatDecidesMayLieOnTheDevice) {
  const std::vector<uint8_t> bytes = deepjit::twice_engine(true);
  Context context = deepjit::load(std::as_bytes(std::span(bytes))).create_context();
  const StandInWords x(kCount, FAKE_CUDA_HERE, 3), y(kCount), z(kCount), choice(1);
  const Input c = {"c", DataType::BOOL, {}, choice.data(), MemoryKind::DEVICE};
  for (int64_t taken : {1, 0, 1}) {
    *choice.data() = taken;
    context.run({input(x.data()), c}, into(y, z));
    EXPECT_TRUE(taken != 0 ? y.twice(3, kCount) : y.same(3, kCount));
  }
  void* stream = fake_->stream();
  const int64_t no = 0;
  fake_->write(choice.data(), &no, 8, stream);
  RunOptions options = into(y, z);
  options.after = {stream};
  context.run({input(x.data()), c}, options);  // reads it when it is there
  EXPECT_TRUE(y.same(3, kCount));
  EXPECT_NE(failure(804,
                    [&] {
                      context.run_async({input(x.data()), c}, stream, into(y, z));
                    })
                .find("\"c\" decides"),
            std::string::npos);
  const bool yes = true;
  context.run_async({input(x.data()), {"c", DataType::BOOL, {}, &yes}}, stream, into(y, z));
  fake_->finish(stream);
  EXPECT_TRUE(y.twice(3, kCount));
}

TEST_F(OnStandIn, EightThreadsGetTheSameBits) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Context context = engine_->create_context(1);
      const StandInWords x(kCount, FAKE_CUDA_HERE, t), y(kCount), z(kCount), second_y(kCount);
      std::vector<int64_t> on_host(kCount);
      std::iota(on_host.begin(), on_host.end(), t);
      void* stream = fake_->stream();
      for (int i = 0; i < 30; ++i) {
        std::fill_n(y.data(), kCount, -1);
        if (i % 3 == 0) {
          context.run({input(x.data())}, into(y, z));
        } else if (i % 3 == 1) {
          context.run_async({input(x.data())}, stream, into(y, z));
          context.synchronize();
        } else {
          const auto& outputs = context.run({input(on_host.data(), MemoryKind::HOST)});
          std::memcpy(y.data(), outputs[0].data, kCount * 8);
        }
        if (y.twice(t, kCount)) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8 * 30);
}

TEST_F(OnStandIn, MemoryIsKnownBeforeTheFirstRun) {
  context_.reset();
  for (int64_t n : {100'000, 1'000'000}) {
    const deepjit::MemoryUse use = engine_->memory_use({{"x", {1, n}}});
    EXPECT_EQ(use.outputs, 2 * use.inputs);
    const uint64_t before = fake_->allocated();
    Context context = engine_->create_context();
    std::vector<int64_t> x(static_cast<size_t>(n));
    for (int i = 0; i < 3; ++i) context.run({input(x.data(), MemoryKind::HOST, static_cast<size_t>(n))});
    const double taken = static_cast<double>(fake_->allocated() - before);
    EXPECT_NEAR(static_cast<double>(use.total()) / taken, 1, 0.02);
    EXPECT_EQ(context.device_bytes(), fake_->allocated() - before);
    const StandInWords on_device(static_cast<size_t>(n));
    Context lean = engine_->create_context();
    const uint64_t so_far = fake_->allocated();
    RunOptions options;
    options.outputs_on_device = true;
    lean.run({input(on_device.data(), MemoryKind::DEVICE, static_cast<size_t>(n))}, options);
    const double without_copies = static_cast<double>(fake_->allocated() - so_far);
    EXPECT_NEAR(static_cast<double>(use.total() - use.inputs) / without_copies, 1, 0.02);
  }
  failure(804, [&] { engine_->memory_use(); });  // N is open
  failure(501, [&] { engine_->memory_use({{"y", {1, 2}}}); });
  failure(503, [&] { engine_->memory_use({{"x", {1, -2}}}); });
}

TEST_F(OnStandIn, TheCAbiDoesTheSame) {
  const std::vector<uint8_t> bytes = deepjit::twice_engine();
  deepjit_engine* engine = nullptr;
  deepjit_context* context = nullptr;
  ASSERT_EQ(deepjit_load_bytes(bytes.data(), bytes.size(), 0, &engine), 0) << deepjit_last_error();
  EXPECT_STREQ(deepjit_engine_device(engine), "cuda:0");
  ASSERT_EQ(deepjit_context_create(engine, 0, &context), 0) << deepjit_last_error();
  EXPECT_NE(deepjit_context_stream(context), nullptr);
  const StandInWords x(kCount, FAKE_CUDA_HERE, 6), y(kCount);
  const int64_t shape[] = {1, kCount};
  const deepjit_tensor in = {"x", DEEPJIT_INT64, 2, shape, x.data()};
  const deepjit_tensor out = {"y", DEEPJIT_INT64, 2, shape, y.data()};
  const int32_t on_device = DEEPJIT_DEVICE;
  deepjit_run_options options;
  deepjit_run_options_init(&options);
  options.input_memory = &on_device;
  options.outputs = &out;
  options.output_count = 1;
  options.output_memory = &on_device;
  ASSERT_EQ(deepjit_context_run_with(context, &in, 1, &options), 0) << deepjit_last_error();
  EXPECT_TRUE(y.twice(6, kCount));
  deepjit_tensor z;
  int32_t memory = -1;
  ASSERT_EQ(deepjit_context_output(context, 1, &z), 0);
  ASSERT_EQ(deepjit_context_output_memory(context, 1, &memory), 0);
  EXPECT_EQ(memory, DEEPJIT_HOST);
  EXPECT_EQ(static_cast<const int64_t*>(z.data)[3], 9);
  options.no_wait = 1;
  EXPECT_EQ(deepjit_context_run_with(context, &in, 1, &options), 804);
  options.use_stream = 1;
  options.stream = fake_->stream();
  std::fill_n(y.data(), kCount, -1);
  ASSERT_EQ(deepjit_context_run_with(context, &in, 1, &options), 0) << deepjit_last_error();
  EXPECT_EQ(y.data()[0], -1);
  ASSERT_EQ(deepjit_context_output_memory(context, 1, &memory), 0);
  EXPECT_EQ(memory, DEEPJIT_DEVICE);
  ASSERT_EQ(deepjit_context_synchronize(context), 0);
  EXPECT_TRUE(y.twice(6, kCount));
  deepjit_memory_use use;
  ASSERT_EQ(deepjit_engine_memory_use(engine, &in, 1, &use), 0) << deepjit_last_error();
  EXPECT_EQ(use.total, use.constants + use.values + use.scratch + use.inputs + use.outputs);
  EXPECT_GE(use.inputs, kCount * 8);
  options.size = 3;
  EXPECT_EQ(deepjit_context_run_with(context, &in, 1, &options), 804);
  deepjit_context_free(context);
  deepjit_engine_free(engine);
}

}  // namespace
