// What every device promises: one set of cases over all kinds. The cases of a device that this machine lacks are
// skipped and say why. With the stand-in driver beside (fake_cuda.cpp) the CUDA cases run on any machine.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "device/device.h"
#include "device/null/null_device.h"
#include "device_code.h"

namespace deepjit {

namespace {

using device::Device;
using device::Launch;
using Words = std::vector<int64_t>;

// Sorted by name, as GoogleTest prints them.
class DeviceTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    try {
      device_ = device::open(GetParam());
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
    stream_ = device_->make_stream();
  }

  bool computes() const { return GetParam() == "cuda"; }
  bool loads_code() const { return device_->info().architecture > 0; }

  // Device memory with these words in it.
  device::Memory upload(const Words& words) {
    device::Memory memory(*device_, device::Memory::Kind::DEVICE);
    stream_->copy_in(memory.ensure(words.size() * 8), words.data(), words.size() * 8);
    stream_->synchronize();
    return memory;
  }
  Words download(const void* from, size_t count) {
    Words words(count, -1);
    stream_->copy_out(words.data(), from, count * 8);
    stream_->synchronize();
    return words;
  }
  static Words counted(size_t count, int64_t first) {
    Words words(count);
    std::iota(words.begin(), words.end(), first);
    return words;
  }
  static uint64_t argument(const void* address) { return reinterpret_cast<uint64_t>(address); }

  // out = 2 * in + k over `count` words.
  void launch_twice_plus(const device::Function& f, const void* in, void* out, int64_t k, size_t count) {
    const std::vector<uint64_t> arguments = {argument(in), argument(out), static_cast<uint64_t>(k), count};
    stream_->launch(f, {static_cast<uint32_t>((count + 127) / 128), 128, 0}, arguments);
  }

  template <typename F>
  static Code code_of(F&& body) {
    try {
      body();
    } catch (const Error& e) {
      return e.code();
    }
    return Code::OK;
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<device::Stream> stream_;
};

TEST_P(DeviceTest, TellsWhatItIs) {
  const device::Info& info = device_->info();
  EXPECT_EQ(info.kind, GetParam());
  EXPECT_EQ(device::kind_of(info.name), info.kind);
  EXPECT_FALSE(info.model.empty());
  EXPECT_GT(info.memory_bytes, size_t{1} << 20);
  EXPECT_GE(info.memory_bytes, device_->free_bytes());
  EXPECT_GE(info.processors, 1);
  if (loads_code()) {
    EXPECT_GE(info.architecture, 50);
    EXPECT_GE(info.shared_bytes_per_block, size_t{48} << 10);
  }
}

TEST_P(DeviceTest, IsSharedWhileAnyoneHoldsIt) { EXPECT_EQ(device::open(GetParam()).get(), device_.get()); }

TEST_P(DeviceTest, CopiesMakeTheRoundTrip) {
  for (size_t count : {size_t{1}, size_t{3}, size_t{1000}, size_t{300'001}}) {
    const Words words = counted(count, 7);
    const device::Memory first = upload(words);
    device::Memory second(*device_, device::Memory::Kind::DEVICE);
    stream_->copy(second.ensure(count * 8), first.data(), count * 8);
    EXPECT_EQ(download(second.data(), count), words);
  }
}

TEST_P(DeviceTest, CopiesOfPartsTouchNothingElse) {
  const device::Memory memory = upload(counted(16, 0));
  const Words part = {100, 101};
  stream_->copy_in(static_cast<std::byte*>(memory.data()) + 3 * 8, part.data(), 16);
  stream_->synchronize();
  Words expected = counted(16, 0);
  expected[3] = 100;
  expected[4] = 101;
  EXPECT_EQ(download(memory.data(), 16), expected);
}

TEST_P(DeviceTest, FillsBytes) {
  const device::Memory memory = upload(counted(4, 1));
  stream_->fill(static_cast<std::byte*>(memory.data()) + 8, 0x01, 16);
  EXPECT_EQ(download(memory.data(), 4), (Words{1, 0x0101010101010101, 0x0101010101010101, 4}));
}

TEST_P(DeviceTest, NothingIsAFineSize) {
  device::Memory memory(*device_, device::Memory::Kind::DEVICE);
  EXPECT_NE(memory.ensure(0), nullptr);
  stream_->copy_in(memory.data(), nullptr, 0);
  stream_->copy_out(nullptr, memory.data(), 0);
  stream_->copy(memory.data(), memory.data(), 0);
  stream_->fill(memory.data(), 1, 0);
  stream_->synchronize();
  device_->free(nullptr);
  device_->free_host(nullptr);
}

TEST_P(DeviceTest, MemoryIsAlignedAndOnlyGrows) {
  device::Memory memory(*device_, device::Memory::Kind::DEVICE);
  void* first = memory.ensure(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
  EXPECT_EQ(memory.ensure(10), first);
  const size_t bytes = memory.bytes();
  memory.ensure(bytes + 1);
  EXPECT_GT(memory.bytes(), bytes);
  device::Memory host(*device_, device::Memory::Kind::HOST);
  std::memset(host.ensure(4096), 5, 4096);
}

TEST_P(DeviceTest, TooMuchMemoryIsAnError) {
  EXPECT_EQ(code_of([&] { device_->allocate(size_t{1} << 60); }), Code::DEVICE_OOM);
  EXPECT_EQ(download(upload({42}).data(), 1), Words{42});  // and does no harm
}

TEST_P(DeviceTest, EventsTellTimeInOrder) {
  const auto before = device_->make_event();
  const auto after = device_->make_event();
  EXPECT_EQ(code_of([&] { device_->elapsed_us(*before, *after); }), Code::STATE);
  const device::Memory memory = upload(Words(1 << 20, 3));
  stream_->record(*before);
  for (int i = 0; i < 4; ++i) stream_->fill(memory.data(), static_cast<uint8_t>(i), size_t{8} << 20);
  stream_->record(*after);
  stream_->synchronize();
  const double us = device_->elapsed_us(*before, *after);
  EXPECT_GT(us, 0);
  EXPECT_LT(us, 10e6);
}

TEST_P(DeviceTest, GraphsReplayWhatWasCaptured) {
  const device::Memory memory = upload(counted(8, 0));
  device::Memory staged(*device_, device::Memory::Kind::HOST);
  auto* host = static_cast<int64_t*>(staged.ensure(2 * 8));
  host[0] = 50;
  stream_->begin_capture();
  stream_->copy_in(memory.data(), host, 8);
  stream_->fill(static_cast<std::byte*>(memory.data()) + 8, 0, 8);
  stream_->copy(static_cast<std::byte*>(memory.data()) + 16, memory.data(), 8);
  stream_->copy_out(host + 1, static_cast<std::byte*>(memory.data()) + 16, 8);
  const auto graph = stream_->end_capture();
  EXPECT_EQ(download(memory.data(), 8), counted(8, 0));  // captured, not run
  for (int64_t value : {50, 60}) {
    host[0] = value;
    stream_->launch(*graph);
    stream_->synchronize();
    EXPECT_EQ(host[1], value);
    Words expected = counted(8, 0);
    expected[0] = expected[2] = value;
    expected[1] = 0;
    EXPECT_EQ(download(memory.data(), 8), expected);
  }
}

TEST_P(DeviceTest, GraphsTimeTheirReplays) {
  const auto before = device_->make_event();
  const auto after = device_->make_event();
  const device::Memory memory = upload(Words(1 << 20, 3));
  stream_->begin_capture();
  stream_->record(*before);
  for (int i = 0; i < 4; ++i) stream_->fill(memory.data(), static_cast<uint8_t>(i), size_t{8} << 20);
  stream_->record(*after);
  const auto graph = stream_->end_capture();
  EXPECT_EQ(code_of([&] { device_->elapsed_us(*before, *after); }), Code::STATE);  // not yet
  for (int i = 0; i < 2; ++i) {
    stream_->launch(*graph);
    stream_->synchronize();
    EXPECT_GT(device_->elapsed_us(*before, *after), 0);
    EXPECT_LT(device_->elapsed_us(*before, *after), 10e6);
  }
}

TEST_P(DeviceTest, CaptureAllowsNothingThatWaits) {
  EXPECT_EQ(code_of([&] { stream_->end_capture(); }), Code::STATE);
  stream_->begin_capture();
  EXPECT_EQ(code_of([&] { stream_->synchronize(); }), Code::STATE);
  EXPECT_EQ(code_of([&] { stream_->begin_capture(); }), Code::STATE);
  const auto graph = stream_->end_capture();
  stream_->launch(*graph);  // of nothing
  stream_->synchronize();
}

TEST_P(DeviceTest, KnowsWhereMemoryLies) {
  device::Memory here(*device_, device::Memory::Kind::DEVICE);
  device::Memory pinned(*device_, device::Memory::Kind::HOST);
  const auto* first = static_cast<const std::byte*>(here.ensure(1000));
  EXPECT_EQ(device_->locate(first), device::Where::HERE);
  EXPECT_EQ(device_->locate(first + 999), device::Where::HERE);
  EXPECT_EQ(device_->locate(static_cast<const std::byte*>(pinned.ensure(1000)) + 8), device::Where::PINNED);
  const Words own(4);
  EXPECT_EQ(device_->locate(own.data()), device::Where::PAGEABLE);
}

// The second stream reads what the first writes last, after four fills that take a while.
TEST_P(DeviceTest, AStreamWaitsForAnother) {
  const auto other = device_->make_stream();
  const auto written = device_->make_event();
  other->wait(*written);  // never recorded: nothing to wait for
  written->synchronize();
  const size_t count = 1 << 20;
  const device::Memory memory = upload(Words(count, 3));
  device::Memory copy(*device_, device::Memory::Kind::DEVICE);
  copy.ensure(count * 8);
  for (int round = 1; round < 4; ++round) {
    for (int i = 0; i < 4; ++i) stream_->fill(memory.data(), static_cast<uint8_t>(i + round), count * 8);
    stream_->record(*written);
    other->wait(*written);
    other->copy(copy.data(), memory.data(), count * 8);
    other->synchronize();
    EXPECT_EQ(download(copy.data(), count), Words(count, 0x0101010101010101 * (round + 3)));
  }
}

TEST_P(DeviceTest, AnEventIsWaitedFor) {
  const auto done = device_->make_event();
  const device::Memory memory = upload(Words(1 << 20, 3));
  device::Memory back(*device_, device::Memory::Kind::HOST);
  auto* words = static_cast<int64_t*>(back.ensure(8 << 20));
  stream_->fill(memory.data(), 7, 8 << 20);
  stream_->copy_out(words, memory.data(), 8 << 20);
  stream_->record(*done);
  done->synchronize();
  EXPECT_EQ(words[(1 << 20) - 1], 0x0707070707070707);
}

TEST_P(DeviceTest, AStreamCanBeBorrowed) {
  const device::Memory memory = upload(counted(8, 0));
  stream_->begin_capture();
  stream_->fill(memory.data(), 1, 8);
  const auto graph = stream_->end_capture();
  const auto owner = device_->make_stream();
  {
    const auto borrowed = device_->borrow_stream(owner->handle());
    borrowed->launch(*graph);
  }
  owner->copy(static_cast<std::byte*>(memory.data()) + 8, memory.data(), 8);
  owner->synchronize();
  EXPECT_EQ(download(memory.data(), 2), (Words{0x0101010101010101, 0x0101010101010101}));
}

TEST_P(DeviceTest, AGraphIsUpdatedWhereOnlyAddressesDiffer) {
  const device::Memory from = upload(counted(8, 100));
  const device::Memory to = upload(counted(8, 0));
  const auto at = [](const device::Memory& memory, int word) {
    return static_cast<std::byte*>(memory.data()) + static_cast<ptrdiff_t>(word) * 8;
  };
  std::unique_ptr<device::Graph> graph;
  const device::Graph* first = nullptr;
  Words expected = counted(8, 0);
  for (int i = 0; i < 4; ++i) {
    stream_->begin_capture();
    stream_->copy(at(to, i), at(from, 7 - i), 8);
    if (i == 3) stream_->copy(at(to, 7), at(from, 0), 8);  // another graph
    graph = stream_->end_capture(std::move(graph));
    if (i == 0) first = graph.get();
    if (i < 3) {
      EXPECT_EQ(graph.get(), first) << "made anew";
    }
    EXPECT_EQ(download(to.data(), 8), expected);
    stream_->launch(*graph);
    expected[static_cast<size_t>(i)] = 107 - i;
    if (i == 3) expected[7] = 100;
    EXPECT_EQ(download(to.data(), 8), expected);
  }
}

TEST_P(DeviceTest, AnUpdateLeavesLaunchesThatAreUnderWay) {
  if (!loads_code()) GTEST_SKIP() << "it loads no code";
  const auto module = device_->load(twice_plus_code());
  const device::Function& f = module->function("twice_plus");
  const device::Memory in = upload(counted(100, 1));
  std::vector<device::Memory> out;
  std::unique_ptr<device::Graph> graph;
  for (int i = 0; i < 3; ++i) {
    out.push_back(upload(Words(100, 0)));
    stream_->begin_capture();
    launch_twice_plus(f, in.data(), out.back().data(), i, 100);
    graph = stream_->end_capture(std::move(graph));
    stream_->launch(*graph);
  }
  for (int i = 0; i < 3; ++i) {
    const Words got = download(out[static_cast<size_t>(i)].data(), 100);
    for (int64_t k = 0; k < 100; ++k) {
      ASSERT_EQ(got[static_cast<size_t>(k)], computes() ? 2 * (k + 1) + i : 0) << i << " " << k;
    }
  }
}

TEST_P(DeviceTest, LaunchesKernels) {
  if (!loads_code()) {
    EXPECT_EQ(code_of([&] { device_->load(twice_plus_code()); }), Code::ENGINE_INCOMPATIBLE);
    return;
  }
  const auto module = device_->load(twice_plus_code());
  const device::Function& f = module->function("twice_plus");
  const Words words = counted(1000, -10);
  const device::Memory in = upload(words);
  const device::Memory out = upload(Words(1001, 7));
  launch_twice_plus(f, in.data(), out.data(), 5, 1000);
  const Words got = download(out.data(), 1001);
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(got[i], computes() ? 2 * words[i] + 5 : 7) << i;
  EXPECT_EQ(got[1000], 7);
}

TEST_P(DeviceTest, GraphsReplayKernelsInOrder) {
  if (!loads_code()) GTEST_SKIP() << "it loads no code";
  const auto module = device_->load(twice_plus_code());
  const device::Function& f = module->function("twice_plus");
  const device::Memory memory = upload(Words(500, 1));
  stream_->begin_capture();
  for (int i = 0; i < 3; ++i) launch_twice_plus(f, memory.data(), memory.data(), i, 500);
  const auto graph = stream_->end_capture();
  stream_->launch(*graph);
  stream_->launch(*graph);
  int64_t expected = 1;
  for (int i = 0; i < 6; ++i) expected = 2 * expected + i % 3;
  EXPECT_EQ(download(memory.data(), 500), Words(500, computes() ? expected : 1));
}

TEST_P(DeviceTest, KnowsHowManyBlocksFit) {
  if (!loads_code()) GTEST_SKIP() << "it loads no code";
  const auto module = device_->load(twice_plus_code());
  const device::Function& f = module->function("twice_plus");
  const int small = f.blocks_per_processor(128, 0);
  EXPECT_GE(small, 1);
  EXPECT_GE(small, f.blocks_per_processor(1024, 0));
  const size_t most = device_->info().shared_bytes_per_block;
  EXPECT_GE(f.blocks_per_processor(128, most), 1);
  EXPECT_LT(f.blocks_per_processor(128, most), small);
  EXPECT_EQ(f.blocks_per_processor(128, most * 4), 0);
}

TEST_P(DeviceTest, RefusesWhatIsNoCode) {
  if (!loads_code()) GTEST_SKIP() << "it loads no code";
  EXPECT_EQ(code_of([&] { device_->load({}); }), Code::ENGINE_INCOMPATIBLE);
  if (!computes()) return;
  std::vector<uint8_t> noise(256, 0x5a);
  EXPECT_EQ(code_of([&] { device_->load(noise); }), Code::ENGINE_INCOMPATIBLE);
  noise.back() = 0;
  EXPECT_EQ(code_of([&] { device_->load(noise); }), Code::ENGINE_INCOMPATIBLE);
  const auto module = device_->load(twice_plus_code());
  EXPECT_EQ(code_of([&] { module->function("no such kernel"); }), Code::ENGINE_RANGE);
}

TEST_P(DeviceTest, ServesManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto stream = device_->make_stream();
      const Words words = counted(5000, t * 10000);
      Words back(5000);
      device::Memory memory(*device_, device::Memory::Kind::DEVICE);
      for (int i = 0; i < 10; ++i) {
        stream->copy_in(memory.ensure(words.size() * 8), words.data(), words.size() * 8);
        stream->copy_out(back.data(), memory.data(), words.size() * 8);
        stream->synchronize();
        if (back == words) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 40);
}

TEST_P(DeviceTest, AForkedChildGetsAnError) {
  if (GetParam() != "cuda") GTEST_SKIP() << "it lives in host memory";
  const pid_t child = fork();
  if (child == 0) _exit(code_of([&] { device_->free(device_->allocate(16)); }) == Code::AFTER_FORK ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(download(upload({7}).data(), 1), Words{7});  // the parent goes on
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceTest, testing::Values("null", "cpu", "cuda"),
                         [](const auto& info) { return info.param; });

TEST(Devices, NamesAreChecked) {
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1", "cuda:99999"}) {
    try {
      device::kind_of(name);
      FAIL() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::ARGUMENT) << name;
    }
  }
  EXPECT_EQ(device::kind_of("cuda:3"), "cuda");
}

TEST(Devices, AllAreFoundOrSaidToBeMissing) {
  const std::vector<device::Found> all = device::find_all();
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all[0].name, "cpu");
  for (const device::Found& found : all) EXPECT_NE(found.device == nullptr, found.reason.empty()) << found.name;
}

TEST(NullDevice, RecordsEveryCall) {
  device::NullDevice device;
  const auto stream = device.make_stream();
  const auto module = device.load(twice_plus_code());
  device::Memory memory(device, device::Memory::Kind::DEVICE);
  const int64_t word = 3;
  stream->copy_in(memory.ensure(8), &word, 8);
  const std::vector<uint64_t> arguments = {1, 2, 3, 4};
  stream->launch(module->function("twice_plus"), {5, 64, 100}, arguments);
  stream->synchronize();
  const auto calls = device.take_calls();
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].call.kind, device::Call::Kind::COPY_IN);
  EXPECT_EQ(calls[0].call.bytes, 8u);
  EXPECT_EQ(calls[1].function, "twice_plus");
  EXPECT_EQ(calls[1].call.arguments, arguments);
  EXPECT_EQ(calls[1].call.shape.blocks, 5u);
  EXPECT_EQ(calls[1].call.shape.threads, 64u);
  EXPECT_EQ(calls[1].call.shape.shared_bytes, 100u);
  EXPECT_EQ(calls[2].call.kind, device::Call::Kind::SYNCHRONIZE);
  EXPECT_TRUE(device.take_calls().empty());
  EXPECT_EQ(device.blocks(), 1u);
}

}  // namespace

}  // namespace deepjit
