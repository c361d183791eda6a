// cuBLASLt and cuDNN on a GPU: every tactic that the providers offer, against the op's reference on the host, run once
// and replayed in a graph. With DEEPJIT_TIMES set, also how fast the best is on the products and convolutions of known
// networks. Skipped where there is no GPU, or no library.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "../kernels/provider_test_util.h"
#include "device/device.h"
#include "kernels/cublaslt/library.h"
#include "kernels/cudnn/library.h"
#include "ops/pointwise/cast.h"
#include "tune/device_bench.h"

namespace deepjit {

namespace {

using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

std::shared_ptr<device::Device> gpu() {
  try {
    return device::open("cuda");
  } catch (const Error&) {
    return nullptr;
  }
}

struct Provider {
  const Offerer& offerer;
  const Launcher& launcher;
};
Provider cublaslt() { return {cublaslt_offerer(), cublaslt_launcher()}; }
Provider cudnn() { return {cudnn_offerer(), cudnn_launcher()}; }

// Large tensors repeat themselves: random numbers take their time.
Tensor random_of(DType dtype, const Dims& dims, uint32_t seed) {
  constexpr int64_t kMost = (1 << 20) - 3;
  const int64_t count = dims.count(), once = std::min(count, kMost);
  const Tensor wide = random_f32({once}, seed);
  Tensor some(dtype, {once}), out(dtype, dims);
  cast_elements(wide.view(), some.view());
  const size_t size = dtype_size(dtype);
  for (int64_t at = 0; at < count; at += once) {
    std::memcpy(static_cast<std::byte*>(out.view().data) + static_cast<size_t>(at) * size, some.view().data,
                static_cast<size_t>(std::min(once, count - at)) * size);
  }
  return out;
}

Tensor copy_of(const Tensor& from) {
  Tensor out(from.dtype(), from.dims());
  std::memcpy(out.view().data, from.view().data, static_cast<size_t>(from.bytes()));
  return out;
}

double tolerance_of(DType dtype, bool tf32) {
  if (dtype == DType::BFLOAT16) return 1.2e-2;
  return dtype == DType::FLOAT16 || tf32 ? 2e-3 : 1e-5;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A step on the GPU, with operands there.
class OnGpu {
 public:
  OnGpu(const StepCase& c, std::vector<Tensor> outputs, const std::string& precision)
      : device_(gpu()), bench_(*device_), case_(c), results_(std::move(outputs)), bound_(c, results_) {
    program_.metadata["build.precision"] = precision;
    bound_.shape.step = &bound_.step;
    bound_.shape.program = &program_;
    bound_.shape.device = device_.get();
    bound_.shape.architectures = {device_->info().architecture};
  }

  StepShape& shape() { return bound_.shape; }
  DeviceBench& bench() { return bench_; }
  std::vector<Tensor>& results() { return results_; }

  // nullptr when the tactic turns out not to work here.
  std::unique_ptr<Kernel> make(const Provider& provider, Tactic& tactic) {
    try {
      provider.offerer.pack(bound_.shape, tactic);
    } catch (const Error& e) {
      std::printf("  %s:%s not packed: %s\n", tactic.provider.c_str(), tactic.variant.c_str(), e.what());
      return nullptr;
    }
    auto kernel = provider.launcher.make(bound_.shape, tactic);
    if (kernel != nullptr) bench_.bring(*kernel, tactic);
    return kernel;
  }
  void run(Kernel& kernel) { bench_.run(kernel, case_.inputs, results_); }

 private:
  std::shared_ptr<device::Device> device_;
  DeviceBench bench_;
  StepCase case_;
  std::vector<Tensor> results_;
  Program program_;
  BoundCase bound_;
};

Tensor shaped(const Dims& dims) { return {DType::FLOAT32, dims}; }

std::string text_of(const StepCase& c) {
  std::string text = c.op;
  for (const auto& [name, value] : c.attrs) text += " " + name + "=" + attribute_to_string(value);
  for (const Tensor& t : c.inputs) text += t.defined() ? " " + t.dims().to_string() : " -";
  return text;
}

// The case with random inputs of this type; its own tell the dims.
StepCase in_type(StepCase c, DType dtype) {
  uint32_t seed = 1;
  for (Tensor& t : c.inputs) {
    if (t.defined()) t = random_of(dtype, t.dims(), seed++);
  }
  return c;
}

// Checks every tactic offered; how many there were that work.
int check(const Provider& provider, const StepCase& c, DType dtype, const std::string& precision = "") {
  const StepCase typed = in_type(c, dtype);
  const std::vector<Tensor> expected = run_op(typed.op, typed.attrs, typed.inputs);
  std::vector<Tensor> outputs;
  outputs.emplace_back(expected[0].dtype(), expected[0].dims());
  OnGpu step(typed, std::move(outputs), precision);
  const Offer offer = provider.offerer.offer(step.shape());
  const double tolerance = tolerance_of(dtype, precision == "tf32");
  int good = 0;
  for (Tactic tactic : offer.tactics) {
    SCOPED_TRACE(text_of(typed) + " " + tactic.provider + ":" + tactic.variant);
    const std::unique_ptr<Kernel> kernel = step.make(provider, tactic);
    if (kernel == nullptr) continue;
    step.run(*kernel);
    const double error = relative_error(step.results()[0], expected[0]);
    EXPECT_LE(error, tolerance);
    step.bench().sample(*kernel, 3);
    ++good;
    // Made from the name alone it is the same kernel; once is enough, since it may have to be compiled.
    if (good > 1) continue;
    Tactic bare = tactic;
    std::erase_if(bare.packed, [](const PackedOperand& p) { return p.input < 0; });
    if (bare.packed.size() == tactic.packed.size()) continue;
    const std::unique_ptr<Kernel> again = provider.launcher.make(step.shape(), bare);
    EXPECT_NE(again, nullptr);
    if (again == nullptr) continue;
    const std::vector<double> before = step.results()[0].to_f64();
    step.bench().bring(*again, bare);
    step.run(*again);
    EXPECT_EQ(step.results()[0].to_f64(), before);
  }
  std::printf("%-9s %-8s %2d of %2zu tactics work: %s %s\n", provider.offerer.name().c_str(),
              std::string(dtype_name(dtype)).c_str(), good, offer.tactics.size(), text_of(typed).c_str(),
              offer.reason.c_str());
  std::fflush(stdout);
  return good;
}

class LibrariesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu() == nullptr) GTEST_SKIP() << "no GPU";
    keep_ = gpu();
  }
  std::shared_ptr<device::Device> keep_;
};

TEST_F(LibrariesTest, Products) {
  if (cublaslt::find_library() == nullptr) GTEST_SKIP() << cublaslt::kMissing;
  const std::vector<StepCase> cases = {
      {"MatMul", {}, {shaped({64, 96}), shaped({96, 128})}},
      {"MatMul", {}, {shaped({33, 17}), shaped({17, 9})}},
      {"deepjit.MatMul",
       {{"trans_a", int64_t{1}}, {"trans_b", int64_t{1}}, {"epilogue", Strings{"Relu"}}},
       {shaped({96, 64}), shaped({128, 96}), shaped({128})}},
      {"deepjit.MatMul", {{"epilogue", Strings{"GeluTanh"}}}, {shaped({2, 64, 96}), shaped({96, 128}), shaped({128})}},
      {"deepjit.MatMul",
       {{"epilogue", Strings{"Add($3)"}}},
       {shaped({2, 64, 96}), shaped({96, 128}), shaped({128}), shaped({2, 64, 128})}},
      {"MatMul", {}, {shaped({2, 3, 64, 32}), shaped({2, 3, 32, 64})}},
      {"MatMul", {}, {shaped({2, 1, 64, 32}), shaped({3, 32, 64})}},
      {"MatMul", {}, {shaped({96}), shaped({96, 64})}},
      {"Gemm",
       {{"alpha", 0.5f}, {"beta", 2.0f}, {"transB", int64_t{1}}},
       {shaped({64, 96}), shaped({128, 96}), shaped({64, 128})}},
      {"deepjit.Conv",
       {{"layout", std::string("NHWC")}, {"epilogue", Strings{"Add($3)", "Relu"}}},
       {shaped({2, 14, 14, 64}), shaped({128, 64, 1, 1}), shaped({128}), shaped({2, 14, 14, 128})},
       {1, 2}},
  };
  for (const StepCase& c : cases) {
    for (DType dtype : {DType::FLOAT32, DType::FLOAT16, DType::BFLOAT16}) EXPECT_GT(check(cublaslt(), c, dtype), 0);
    EXPECT_GT(check(cublaslt(), c, DType::FLOAT32, "tf32"), 0);
  }
}

TEST_F(LibrariesTest, ProductsAsGraphs) {
  if (cudnn::find_library() == nullptr) GTEST_SKIP() << cudnn::kMissing;
  for (const Strings& epilogue : {Strings{"Gelu"}, {"Swish(1)"}, {"Add($3)"}}) {
    StepCase c{"deepjit.MatMul", {{"epilogue", epilogue}}, {shaped({2, 64, 96}), shaped({96, 128}), shaped({128})}};
    if (epilogue[0][0] == 'A') c.inputs.push_back(shaped({2, 64, 128}));
    for (DType dtype : {DType::FLOAT16, DType::BFLOAT16}) check(cudnn(), c, dtype);
    check(cudnn(), c, DType::FLOAT32, "tf32");
  }
  check(cudnn(), {"MatMul", {}, {shaped({2, 3, 64, 32}), shaped({2, 3, 32, 64})}}, DType::FLOAT16);
}

StepCase conv(const char* layout, int64_t channels, int64_t out, int64_t kernel, int64_t stride, int64_t side,
              int64_t batch, const Strings& epilogue, bool residual) {
  const bool last = std::string(layout) == "NHWC";
  const int64_t pad = kernel / 2, to = (side + 2 * pad - kernel) / stride + 1;
  const auto image = [&](int64_t c, int64_t s) { return last ? Dims{batch, s, s, c} : Dims{batch, c, s, s}; };
  StepCase c{"deepjit.Conv",
             {{"layout", std::string(layout)},
              {"pads", Ints{pad, pad, pad, pad}},
              {"strides", Ints{stride, stride}},
              {"epilogue", epilogue}},
             {shaped(image(channels, side)), shaped({out, channels, kernel, kernel}), shaped({out})},
             {1, 2}};
  if (residual) c.inputs.push_back(shaped(image(out, to)));
  return c;
}

TEST_F(LibrariesTest, Convolutions) {
  if (cudnn::find_library() == nullptr) GTEST_SKIP() << cudnn::kMissing;
  const DType half = DType::FLOAT16, wide = DType::FLOAT32;
  EXPECT_GT(check(cudnn(), conv("NHWC", 64, 64, 3, 1, 14, 2, {}, false), half), 0);
  EXPECT_GT(check(cudnn(), conv("NHWC", 64, 64, 3, 1, 14, 2, {"Relu"}, false), half), 0);
  EXPECT_GT(check(cudnn(), conv("NHWC", 64, 128, 1, 1, 14, 2, {"Add($3)", "Relu"}, true), half), 0);
  EXPECT_GT(check(cudnn(), conv("NHWC", 3, 64, 7, 2, 32, 1, {"Relu"}, false), half), 0);
  EXPECT_GT(check(cudnn(), conv("NHWC", 64, 64, 3, 1, 14, 2, {"Relu"}, false), DType::BFLOAT16), 0);
  EXPECT_GT(check(cudnn(), conv("NHWC", 64, 64, 3, 1, 14, 2, {"Relu"}, false), wide), 0);
  EXPECT_GT(check(cudnn(), conv("NHWC", 64, 64, 3, 1, 14, 2, {"Relu"}, false), wide, "tf32"), 0);
  EXPECT_GT(check(cudnn(), conv("NCHW", 64, 64, 3, 1, 14, 2, {"Relu"}, false), wide), 0);
  EXPECT_GT(check(cudnn(), conv("NCHW", 64, 64, 3, 1, 14, 2, {"Add($3)", "Relu"}, true), wide), 0);
  // Runtime-fused; whether there is an engine depends on the GPU and the version.
  for (const Strings& epilogue : {Strings{"Clip(0,6)"},
                                  {"Swish(1)"},
                                  {"Sigmoid"},
                                  {"HardSwish"},
                                  {"Gelu"},
                                  {"GeluTanh"},
                                  {"Tanh"},
                                  {"LeakyRelu(0.1)"},
                                  {"Linear(2,1)", "Relu"}}) {
    check(cudnn(), conv("NHWC", 64, 64, 3, 1, 14, 2, epilogue, false), half);
  }
  check(cudnn(), conv("NCHW", 64, 64, 3, 1, 14, 2, {"Relu"}, false), half);
  check(cudnn(), conv("NHWC", 64, 64, 3, 1, 14, 2, {"Swish(1)"}, false), wide, "tf32");
  const AttrList grouped = {{"layout", std::string("NHWC")}, {"group", int64_t{64}}, {"pads", Ints{1, 1, 1, 1}}};
  check(cudnn(), {"deepjit.Conv", grouped, {shaped({2, 14, 14, 64}), shaped({64, 1, 3, 3})}, {1}}, half);
  const AttrList uneven = {{"layout", std::string("NHWC")}, {"dilations", Ints{2, 1}}, {"pads", Ints{1, 0, 2, 1}}};
  check(cudnn(), {"deepjit.Conv", uneven, {shaped({2, 14, 15, 64}), shaped({64, 64, 3, 3})}, {1}}, half);
}

TEST_F(LibrariesTest, TransposedConvolutions) {
  if (cudnn::find_library() == nullptr) GTEST_SKIP() << cudnn::kMissing;
  for (const char* layout : {"NHWC", "NCHW"}) {
    const bool last = std::string(layout) == "NHWC";
    const AttrList attrs = {{"layout", std::string(layout)},
                            {"strides", Ints{2, 2}},
                            {"pads", Ints{1, 1, 1, 1}},
                            {"output_padding", Ints{1, 1}}};
    const StepCase c{"deepjit.ConvTranspose",
                     attrs,
                     {shaped(last ? Dims{2, 9, 9, 64} : Dims{2, 64, 9, 9}), shaped({64, 32, 3, 3})},
                     {1}};
    EXPECT_GT(check(cudnn(), c, DType::FLOAT16) + check(cudnn(), c, DType::FLOAT32), 0);
    StepCase biased = c;
    biased.inputs.push_back(shaped({32}));
    biased.attrs.emplace_back("epilogue", Strings{"Relu"});
    check(cudnn(), biased, DType::FLOAT16);
  }
}

TEST_F(LibrariesTest, Pools) {
  if (cudnn::find_library() == nullptr) GTEST_SKIP() << cudnn::kMissing;
  const AttrList last = {{"layout", std::string("NHWC")}};
  const auto windows = [&](int64_t kernel, int64_t stride, int64_t pad, AttrList more) {
    more.insert(more.end(), last.begin(), last.end());
    more.emplace_back("kernel_shape", Ints{kernel, kernel});
    more.emplace_back("strides", Ints{stride, stride});
    more.emplace_back("pads", Ints{pad, pad, pad, pad});
    return more;
  };
  const Tensor image = shaped({2, 28, 28, 64});
  for (DType dtype : {DType::FLOAT16, DType::BFLOAT16}) {
    EXPECT_GT(check(cudnn(), {"deepjit.MaxPool", windows(3, 2, 1, {}), {image}}, dtype), 0);
    EXPECT_GT(check(cudnn(), {"deepjit.AveragePool", windows(3, 2, 1, {}), {image}}, dtype), 0);
    EXPECT_GT(
        check(cudnn(), {"deepjit.AveragePool", windows(3, 1, 1, {{"count_include_pad", int64_t{1}}}), {image}}, dtype),
        0);
    check(cudnn(), {"deepjit.MaxPool", windows(3, 2, 0, {{"ceil_mode", int64_t{1}}}), {image}}, dtype);
    check(cudnn(), {"deepjit.GlobalAveragePool", last, {shaped({2, 7, 7, 512})}}, dtype);
  }
  check(cudnn(), {"deepjit.MaxPool", windows(3, 2, 1, {}), {image}}, DType::FLOAT32);
}

TEST_F(LibrariesTest, Attention) {
  if (cudnn::find_library() == nullptr) GTEST_SKIP() << cudnn::kMissing;
  const AttrList twelve = {{"q_num_heads", int64_t{12}}, {"kv_num_heads", int64_t{12}}};
  const auto rows = [](int64_t count) { return shaped({2, count, 768}); };
  for (DType dtype : {DType::FLOAT16, DType::BFLOAT16}) {
    check(cudnn(), {"Attention", twelve, {rows(128), rows(128), rows(128)}}, dtype);
    check(cudnn(), {"Attention", twelve, {rows(197), rows(197), rows(197)}}, dtype);
    check(cudnn(), {"Attention", {}, {shaped({2, 8, 33, 64}), shaped({2, 2, 77, 64}), shaped({2, 2, 77, 64})}}, dtype);
    check(cudnn(), {"Attention", {}, {shaped({1, 4, 64, 128}), shaped({1, 4, 64, 128}), shaped({1, 4, 64, 128})}},
          dtype);
  }
}

// The best tactics of all providers for one step, its result against that of the first one.
void time_step(const char* label, const std::vector<Provider>& providers, const StepCase& c, const Dims& result) {
  const StepCase typed = in_type(c, DType::FLOAT16);
  std::vector<Tensor> outputs;
  outputs.emplace_back(DType::FLOAT16, result);
  OnGpu step(typed, std::move(outputs), "");
  Tensor first;
  std::string line;
  for (const Provider& provider : providers) {
    auto start = std::chrono::steady_clock::now();
    const Offer offer = provider.offerer.offer(step.shape());
    const double asking = seconds_since(start);
    double best = 1e9, making = 0, saved = 0;
    std::string name = "none: " + offer.reason;
    double error = 0;
    size_t good = 0;
    for (Tactic tactic : offer.tactics) {
      start = std::chrono::steady_clock::now();
      const std::unique_ptr<Kernel> kernel = step.make(provider, tactic);
      making += seconds_since(start);
      if (kernel == nullptr) continue;
      ++good;
      step.run(*kernel);
      if (!first.defined()) first = copy_of(step.results()[0]);
      error = std::max(error, relative_error(step.results()[0], first));
      double time = 1e9;
      for (int round = 0; round < 3; ++round) time = std::min(time, step.bench().sample(*kernel, 20));
      if (time >= best) continue;
      best = time;
      name = tactic.variant;
      for (const PackedOperand& p : tactic.packed) saved = p.input < 0 ? static_cast<double>(p.data.bytes()) : saved;
    }
    std::printf("%-34s %-9s %8.2f us  %s  [%zu of %zu, apart %.1e, asked %.2f s, made %.2f s, plan %.0f KB]\n", label,
                provider.offerer.name().c_str(), good == 0 ? 0 : best, name.c_str(), good, offer.tactics.size(), error,
                asking, making, saved / 1024);
    std::fflush(stdout);
  }
}

TEST_F(LibrariesTest, TimesOfResNet50) {
  if (std::getenv("DEEPJIT_TIMES") == nullptr) GTEST_SKIP() << "DEEPJIT_TIMES is not set";
  struct Row {
    int64_t channels, out, kernel, stride, side;
    bool residual;
  };
  const std::vector<Row> rows = {
      {3, 64, 7, 2, 224, false},    {64, 64, 1, 1, 56, false},     {64, 64, 3, 1, 56, false},
      {64, 256, 1, 1, 56, true},    {256, 64, 1, 1, 56, false},    {256, 128, 1, 1, 56, false},
      {128, 128, 3, 2, 56, false},  {256, 512, 1, 2, 56, false},   {128, 512, 1, 1, 28, true},
      {512, 128, 1, 1, 28, false},  {128, 128, 3, 1, 28, false},   {512, 256, 1, 1, 28, false},
      {256, 256, 3, 2, 28, false},  {512, 1024, 1, 2, 28, false},  {256, 1024, 1, 1, 14, true},
      {1024, 256, 1, 1, 14, false}, {256, 256, 3, 1, 14, false},   {1024, 512, 1, 1, 14, false},
      {512, 512, 3, 2, 14, false},  {1024, 2048, 1, 2, 14, false}, {512, 2048, 1, 1, 7, true},
      {2048, 512, 1, 1, 7, false},  {512, 512, 3, 1, 7, false}};
  for (int64_t batch : {1, 16}) {
    for (const Row& r : rows) {
      const Strings epilogue = r.residual ? Strings{"Add($3)", "Relu"} : Strings{"Relu"};
      const StepCase c = conv("NHWC", r.channels, r.out, r.kernel, r.stride, r.side, batch, epilogue, r.residual);
      const int64_t to = (r.side + 2 * (r.kernel / 2) - r.kernel) / r.stride + 1;
      const std::string label = "b" + std::to_string(batch) + " " + std::to_string(r.kernel) + "x" +
                                std::to_string(r.kernel) + "/" + std::to_string(r.stride) + " " +
                                std::to_string(r.channels) + "->" + std::to_string(r.out) + " " +
                                std::to_string(r.side) + (r.residual ? " +res" : "");
      time_step(
          label.c_str(),
          r.kernel == 1 && r.stride == 1 ? std::vector<Provider>{cublaslt(), cudnn()} : std::vector<Provider>{cudnn()},
          c, {batch, to, to, r.out});
    }
  }
}

TEST_F(LibrariesTest, TimesOfBert) {
  if (std::getenv("DEEPJIT_TIMES") == nullptr) GTEST_SKIP() << "DEEPJIT_TIMES is not set";
  for (int64_t tokens : {128, 2048}) {
    const auto dense = [&](int64_t n, int64_t k, const Strings& epilogue) {
      StepCase c{
          "deepjit.MatMul", {{"epilogue", epilogue}}, {shaped({tokens, k}), shaped({k, n}), shaped({n})}, {1, 2}};
      if (!epilogue.empty() && epilogue[0][0] == 'A') c.inputs.push_back(shaped({tokens, n}));
      const std::string label = std::to_string(tokens) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                                (epilogue.empty() ? "" : " " + epilogue[0]);
      time_step(label.c_str(), {cublaslt(), cudnn()}, c, {tokens, n});
    };
    dense(2304, 768, {});
    dense(768, 768, {});
    dense(768, 768, {"Add($3)"});
    dense(3072, 768, {"GeluTanh"});
    dense(3072, 768, {"Gelu"});
    dense(3072, 768, {});
    dense(768, 3072, {});
    dense(768, 3072, {"Add($3)"});
    const int64_t heads = tokens / 128 * 12;
    time_step("scores", {cublaslt()},
              {"deepjit.MatMul",
               {{"trans_b", int64_t{1}}, {"epilogue", Strings{"Linear(0.125,0)"}}},
               {shaped({heads, 128, 64}), shaped({heads, 128, 64})}},
              {heads, 128, 128});
    time_step("context", {cublaslt()}, {"MatMul", {}, {shaped({heads, 128, 128}), shaped({heads, 128, 64})}},
              {heads, 128, 64});
  }
}

}  // namespace

}  // namespace deepjit
