// Inputs and outputs on the device for engines with steps on the host, through the C++ API. Run against the stand-in
// driver, whose streams do nothing until somebody waits, by tests/device/fake_cuda_test.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "../device/stand_in.h"
#include "deepjit/deepjit.hpp"

namespace {

using deepjit::DataType;
using deepjit::Input;
using deepjit::MemoryKind;
using deepjit::Output;
using deepjit::RunOptions;
using deepjit::StandIn;
using deepjit::StandInWords;

constexpr size_t kCount = 1000;

// s is the running sum of 2 * x + 1, z is x, t the running sum of x; x counts up from `first`.
void expect_right(const int64_t* s, const int64_t* z, const int64_t* t, int64_t first) {
  int64_t sum_s = 0, sum_t = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const int64_t x = first + static_cast<int64_t>(i);
    sum_s += 2 * x + 1;
    sum_t += x;
    ASSERT_EQ(s[i], sum_s) << i;
    ASSERT_EQ(z[i], x) << i;
    ASSERT_EQ(t[i], sum_t) << i;
  }
}

const int64_t* words(const Output& output) { return static_cast<const int64_t*>(output.data); }

class OnStandInHostSteps : public testing::Test {
 protected:
  void SetUp() override {
    fake_ = deepjit::stand_in();
    if (fake_ == nullptr) GTEST_SKIP() << "the driver is not the stand-in";
    const std::vector<uint8_t> bytes = deepjit::twice_and_sums_engine();
    engine_.emplace(deepjit::load(std::as_bytes(std::span(bytes))));
    context_.emplace(engine_->create_context());
    fake_->take_counts();
  }
  static Input input(const void* data, MemoryKind memory) {
    return {"x", DataType::INT64, {1, static_cast<int64_t>(kCount)}, data, memory};
  }
  const StandIn* fake_ = nullptr;
  std::optional<deepjit::Engine> engine_;
  std::optional<deepjit::Context> context_;
};

TEST_F(OnStandInHostSteps, HostMemory) {
  std::vector<int64_t> x(kCount);
  for (const int64_t first : {5, 6, -7, 8}) {
    std::iota(x.begin(), x.end(), first);
    const std::vector<Output>& outputs = context_->run({input(x.data(), MemoryKind::HOST)});
    expect_right(words(outputs[0]), words(outputs[1]), words(outputs[2]), first);
    context_->synchronize();
  }
  const fake_cuda_counts counts = fake_->take_counts();
  EXPECT_EQ(counts.bytes_in, 4 * kCount * 8);   // x
  EXPECT_EQ(counts.bytes_out, 2 * kCount * 8);  // y, for its sum: in the first run, and in the graph of the others
  EXPECT_EQ(counts.graphs_made, 1u);
}

TEST_F(OnStandInHostSteps, InputsAndOutputsOnTheDevice) {
  for (const int64_t first : {5, 6, -7, 8}) {
    const StandInWords x(kCount, FAKE_CUDA_HERE, first), s(kCount), z(kCount), t(kCount);
    RunOptions options;
    for (const auto& [name, memory] : {std::pair("s", &s), {"z", &z}, {"t", &t}}) {
      options.outputs.push_back(
          {name, DataType::INT64, {1, static_cast<int64_t>(kCount)}, memory->data(), MemoryKind::DEVICE});
    }
    const std::vector<Output>& outputs = context_->run({input(x.data(), MemoryKind::DEVICE)}, options);
    expect_right(s.data(), z.data(), t.data(), first);
    for (const Output& output : outputs) EXPECT_EQ(output.memory, MemoryKind::DEVICE);
  }
}

TEST_F(OnStandInHostSteps, OutputsThatStayOnTheDevice) {
  RunOptions options;
  options.outputs_on_device = true;
  const StandInWords x(kCount, FAKE_CUDA_HERE, 3);
  for (int run = 0; run < 3; ++run) {
    const std::vector<Output>& outputs = context_->run({input(x.data(), MemoryKind::DEVICE)}, options);
    for (const Output& output : outputs) EXPECT_EQ(output.memory, MemoryKind::DEVICE);
    expect_right(words(outputs[0]), words(outputs[1]), words(outputs[2]), 3);
  }
}

// The caller's stream holds work that the run needs; the run comes back when its steps on the host are done.
TEST_F(OnStandInHostSteps, AStreamOfTheCaller) {
  const StandInWords later(kCount, FAKE_CUDA_HERE, 40), x(kCount, FAKE_CUDA_HERE, 0);
  RunOptions options;
  options.stream = fake_->stream();
  for (int run = 0; run < 3; ++run) {
    std::fill_n(x.data(), kCount, 0);
    fake_->write(x.data(), later.data(), kCount * 8, *options.stream);
    const std::vector<Output>& outputs = context_->run({input(x.data(), MemoryKind::DEVICE)}, options);
    expect_right(words(outputs[0]), words(outputs[1]), words(outputs[2]), 40);
  }
}

}  // namespace
