// What the tests of engines on the null device share: programs with stand-in kernels, and counts of calls.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "device/null/null_device.h"
#include "graph/parse.h"
#include "kernels/nvrtc/launch_data.h"
#include "lower/lower.h"
#include "runtime/engine.h"

namespace deepjit::device_tests {

using device::Call;
using device::NullDevice;
using Kind = device::Call::Kind;

inline Quantity dim_of(int operand, int axis) {
  return {1, {{static_cast<int16_t>(operand), static_cast<int16_t>(axis)}}};
}

// A tactic as the provider packs it: walks all of operand 0, of rank 2.
inline Tactic stand_in(const std::string& name, int architecture, int64_t row_buffers = 0) {
  nvrtc_gpu::LaunchData data;
  data.name = name;
  data.threads = 256;
  data.per_thread = 4;
  data.row_buffers = row_buffers;
  data.by_rows = row_buffers > 0;
  data.rows_per_block = row_buffers > 0 ? 2 : 1;
  data.threads_per_row = row_buffers > 0 ? 128 : 1;
  data.extents = {dim_of(0, 0), dim_of(0, 1)};
  data.params = {{3, {}}, dim_of(0, 1)};
  Tactic tactic;
  tactic.provider = "nvrtc";
  const std::vector<uint8_t> code = {1, 2, 3, static_cast<uint8_t>(name.back())};
  const Tensor bytes = Tensor::from<uint8_t>(DType::UINT8, {4}, code);
  tactic.packed.push_back({-1, nvrtc_gpu::kCubinFormat + std::to_string(architecture), bytes});
  tactic.packed.push_back({-1, nvrtc_gpu::kLaunchFormat, nvrtc_gpu::write_launch_data(data)});
  return tactic;
}

inline Program program_of(const std::string& text, const std::string& device = "null") {
  Program program = lower(*parse_graph(text));
  program.metadata["build.device"] = device;
  int kernels = 0;
  for (Step& step : program.steps) {
    if (step.op == kRegionOp) step.tactic = stand_in("kernel_" + std::to_string(kernels++), 90);
  }
  return program;
}

// y reads a constant; x comes back as it is.
inline constexpr const char* kText = R"(graph @main(%x: float32[N,64]) -> (%y, %x) {
  %w = constant float32[64] random(1)
  %a = Mul(%x, %w)
  %y = Tanh(%a)
})";

// Two kernels with a value between them: a product keeps them apart.
struct Fixture {
  explicit Fixture(Program program, const std::string& name = "null")
      : device(std::dynamic_pointer_cast<NullDevice>(device::open(name))),
        engine(std::make_shared<const Engine>(std::move(program), nullptr)) {
    device->take_calls();
  }
  // The calls of a run; not those that make its graph, which is ready afterwards.
  std::vector<NullDevice::Record> run(Context& context, const Tensor& x, std::vector<TensorView>& outputs) const {
    device->take_calls();
    const std::vector<TensorView> inputs = {x.view()};
    context.run(inputs, outputs);
    context.finish();
    std::vector<NullDevice::Record> calls = device->take_calls();
    std::erase_if(calls, [](const NullDevice::Record& record) {
      return record.call.kind == Kind::CAPTURE || record.call.kind == Kind::INSTANTIATE ||
             record.call.kind == Kind::UPDATE;
    });
    return calls;
  }
  std::shared_ptr<NullDevice> device;
  std::shared_ptr<const Engine> engine;
};

inline Tensor counted(const Dims& dims) {
  Tensor t(DType::FLOAT32, dims);
  std::iota(t.as<float>(), t.as<float>() + dims.count(), 1.0f);
  return t;
}

inline size_t count(const std::vector<NullDevice::Record>& calls, Kind kind) {
  return static_cast<size_t>(
      std::count_if(calls.begin(), calls.end(), [&](const auto& record) { return record.call.kind == kind; }));
}

inline const NullDevice::Record& launch_of(const std::vector<NullDevice::Record>& calls) {
  const auto it = std::find_if(calls.begin(), calls.end(), [](const auto& r) { return r.call.kind == Kind::LAUNCH; });
  EXPECT_NE(it, calls.end());
  return *it;
}

template <typename F>
Code code_of(F&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.code();
  }
  return Code::OK;
}

}  // namespace deepjit::device_tests
