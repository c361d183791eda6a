// How the tuner lays out operands while it times a kernel of a GPU, and what of a GPU its choices depend on.
#include "tune/device_bench.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "device/null/null_device.h"
#include "tune/tuner.h"

namespace deepjit {
namespace {

using device::Call;
using device::NullDevice;

constexpr size_t kMiB = size_t{1} << 20;

Tensor filled(size_t bytes, uint8_t value) {
  Tensor t(DType::UINT8, {static_cast<int64_t>(bytes)});
  std::memset(t.view().data, value, bytes);
  return t;
}

// Reads the first byte of each input.
class Reader final : public Kernel {
 public:
  explicit Reader(size_t inputs) : inputs_(inputs) {}
  void run(const KernelArgs& args) override {
    for (size_t i = 0; i < inputs_; ++i) args.stream->copy(args.outputs[0], args.inputs[i], 1);
  }

 private:
  size_t inputs_;
};

// From where one launch after another read each input; of one sample.
class Bench {
 public:
  Bench(const std::vector<Tensor>& inputs, std::vector<bool> cold)
      : device_(std::make_shared<NullDevice>()),
        bench_(*device_, std::move(cold)),
        kernel_(inputs.size()),
        inputs_(inputs) {}
  void pack(size_t input, const Tensor& data) {
    Tactic tactic;
    tactic.packed.push_back({static_cast<int32_t>(input), "other", data});
    bench_.bring(kernel_, tactic);
  }
  std::vector<std::vector<const uint8_t*>> sample(int repeats) {
    bench_.run(kernel_, inputs_, {filled(1, 0)});
    bench_.sample(kernel_, repeats);
    device_->take_calls();
    bench_.sample(kernel_, repeats);
    std::vector<std::vector<const uint8_t*>> read(inputs_.size());
    size_t next = 0;
    for (const NullDevice::Record& record : device_->take_calls()) {
      if (!record.call.replayed || record.call.kind != Call::Kind::COPY) continue;
      read[next++ % inputs_.size()].push_back(static_cast<const uint8_t*>(record.call.from));
    }
    return read;
  }
  size_t allocated() const { return device_->allocated_bytes(device::Where::HERE); }

 private:
  std::shared_ptr<NullDevice> device_;
  DeviceBench bench_;
  Reader kernel_;
  std::vector<Tensor> inputs_;
};

std::map<const uint8_t*, int> counted(const std::vector<const uint8_t*>& addresses) {
  std::map<const uint8_t*, int> counts;
  for (const uint8_t* address : addresses) ++counts[address];
  return counts;
}

TEST(DeviceBench, WarmOperandsStayWhereTheyAre) {
  Bench bench({filled(kMiB, 1), filled(4 * kMiB, 2)}, {});
  for (const auto& input : bench.sample(10)) {
    EXPECT_EQ(input.size(), 10u);
    EXPECT_EQ(counted(input).size(), 1u);
  }
}

// The L2 of the null device has 50 MiB.
TEST(DeviceBench, ColdConstantsAreReadFromCopiesThatTheL2DoesNotHold) {
  Bench bench({filled(kMiB, 1), filled(4 * kMiB, 2)}, {false, true});
  const auto read = bench.sample(20);
  EXPECT_EQ(counted(read[0]).size(), 1u);  // as the step before wrote it
  const auto copies = counted(read[1]);
  EXPECT_EQ(copies.size(), 16u);  // 62.5 MiB
  EXPECT_EQ(read[1].size(), 32u);
  for (const auto& [address, count] : copies) {
    EXPECT_EQ(count, 2);
    for (size_t at = 0; at < 4 * kMiB; at += 4096) ASSERT_EQ(address[at], 2);
    EXPECT_EQ(address[4 * kMiB - 1], 2);
  }
  std::vector<const uint8_t*> ends;
  for (const auto& [address, count] : copies) {
    if (!ends.empty()) {
      EXPECT_GE(address, ends.back());
    }
    ends.push_back(address + 4 * kMiB);
  }
}

TEST(DeviceBench, WhatATacticPackedIsRotatedInItsPlace) {
  Bench bench({filled(kMiB, 1), filled(4 * kMiB, 2)}, {false, true});
  bench.pack(1, filled(8 * kMiB, 3));
  const auto copies = counted(bench.sample(1)[1]);
  EXPECT_EQ(copies.size(), 8u);
  for (const auto& [address, count] : copies) EXPECT_EQ(address[8 * kMiB - 1], 3);
}

TEST(DeviceBench, ConstantsThatDoNotMatterOrAreLargerThanTheL2StayWhereTheyAre) {
  EXPECT_EQ(counted(Bench({filled(21 * kMiB, 1), filled(kMiB, 2)}, {false, true}).sample(3)[1]).size(), 1u);
  EXPECT_EQ(counted(Bench({filled(10, 1), filled(63 * kMiB, 2)}, {false, true}).sample(3)[1]).size(), 1u);
  EXPECT_EQ(counted(Bench({filled(10, 1), filled(1000, 2)}, {false, true}).sample(3)[1]).size(), 64u);
}

TEST(DeviceBench, ConstantsOfALargeProgramAreCold) {
  const device::Info info = NullDevice().info();
  Program program;
  program.buffers.resize(2);
  program.buffers[0].constant = filled(20 * kMiB, 1);
  EXPECT_FALSE(constants_are_cold(program, info));
  program.buffers[1].constant = filled(6 * kMiB, 1);
  EXPECT_TRUE(constants_are_cold(program, info));
  program.buffers[1].constant = Tensor();
  program.steps.resize(1);
  program.steps[0].tactic.packed.push_back({0, "packed", filled(6 * kMiB, 1)});
  EXPECT_TRUE(constants_are_cold(program, info));
  program.steps[0].tactic.packed[0].input = -1;  // code
  EXPECT_FALSE(constants_are_cold(program, info));
}

TEST(GpuText, TellsWhatDecidesTimes) {
  device::Info info = NullDevice().info();
  std::string last = gpu_text(info);
  const auto expect_other = [&](const char* what) {
    EXPECT_NE(gpu_text(info), last) << what;
    last = gpu_text(info);
  };
  info.model = "NVIDIA H200";
  expect_other("model");
  info.architecture = 100;
  expect_other("architecture");
  ++info.processors;
  expect_other("processors");
  --info.shared_bytes_per_block;
  expect_other("shared memory of a block");
  ++info.shared_bytes_per_processor;
  expect_other("shared memory of a processor");
  ++info.l2_bytes;
  expect_other("L2");
  ++info.clock_khz;
  expect_other("clock");
  ++info.memory_clock_khz;
  expect_other("memory clock");
  ++info.memory_bus_bits;
  expect_other("memory bus");
  info.driver_version = "CUDA 13.1, 590.1";
  expect_other("driver");
  info.name = "cuda:1";
  info.driver = "elsewhere";
  --info.memory_bytes;
  EXPECT_EQ(gpu_text(info), last);
}

}  // namespace
}  // namespace deepjit
