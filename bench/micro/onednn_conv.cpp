// Prints the speed of every oneDNN tactic for a few convolutions in both layouts, and of oneDNN's own blocked
// layouts without the reorders in and out (what a graph-wide blocked layout could reach).
//
// Build it with bench/micro/build.sh; run: onednn_conv [threads]
#include <omp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "kernels/kernel.h"

namespace {

using namespace deepjit;

struct ConvCase {
  int64_t size, in, out, kernel, group;
  double flops() const { return 2.0 * size * size * out * (in / group) * kernel * kernel; }
};

double best_seconds(const std::function<void()>& f) {
  double best = 1e9;
  for (int i = 0; i < 30; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

Tensor filled(const Dims& dims) {
  Tensor t(DType::FLOAT32, dims);
  for (int64_t i = 0; i < t.count(); ++i) t.as<float>()[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
  return t;
}

void report(const ConvCase& c, const char* layout, const std::string& what, double seconds) {
  std::printf("%3ldx%-3ld %4ld->%-4ld k%ld g%-4ld %-7s %-28s %8.3f ms %8.1f GFLOP/s\n", c.size, c.size, c.in, c.out,
              c.kernel, c.group, layout, what.c_str(), seconds * 1e3, c.flops() / seconds * 1e-9);
  std::fflush(stdout);
}

void bench_tactics(const ConvCase& c, bool last, int threads) {
  const Tensor w = filled({c.out, c.in / c.group, c.kernel, c.kernel}), b = filled({c.out});
  const Tensor x = filled(last ? Dims{1, c.size, c.size, c.in} : Dims{1, c.in, c.size, c.size});
  const Tensor y = filled(last ? Dims{1, c.size, c.size, c.out} : Dims{1, c.out, c.size, c.size});
  Step step;
  step.op = "deepjit.Conv";
  step.attrs.set("layout", std::string(last ? "NHWC" : "NCHW"));
  step.attrs.set("group", c.group);
  step.attrs.set("epilogue", std::vector<std::string>{"Relu"});
  const int64_t pad = c.kernel / 2;
  step.attrs.set("pads", std::vector<int64_t>{pad, pad, pad, pad});
  StepShape shape;
  shape.step = &step;
  shape.inputs = {x.view().desc(), w.view().desc(), b.view().desc()};
  shape.outputs = {y.view().desc()};
  shape.constants = {nullptr, &w, &b};
  shape.threads = threads;
  for (Tactic tactic : onednn_offerer().offer(shape).tactics) {
    onednn_offerer().pack(shape, tactic);
    const std::unique_ptr<Kernel> kernel = onednn_launcher().make(shape, tactic);
    void* inputs[] = {x.view().data, w.view().data, b.view().data};
    void* outputs[] = {y.view().data};
    const Tensor scratch(DType::UINT8, Dims{static_cast<int64_t>(kernel->scratch_bytes()) + 1});
    const KernelArgs args{inputs, outputs, scratch.view().data};
    report(c, last ? "NHWC" : "NCHW", tactic.variant, best_seconds([&] { kernel->run(args); }));
  }
}

void bench_blocked(const ConvCase& c) {
  using dnnl::memory;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto f32 = memory::data_type::f32;
  const auto any = memory::format_tag::any;
  const memory::dims weights = c.group > 1 ? memory::dims{c.group, c.out / c.group, c.in / c.group, c.kernel, c.kernel}
                                           : memory::dims{c.out, c.in, c.kernel, c.kernel};
  const memory::dims pad(2, c.kernel / 2), one(2, 1);
  const dnnl::convolution_forward::primitive_desc pd(
      engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      memory::desc({1, c.in, c.size, c.size}, f32, any), memory::desc(weights, f32, any),
      memory::desc({1, c.out, c.size, c.size}, f32, any), one, pad, pad);
  memory src(pd.src_desc(), engine), wei(pd.weights_desc(), engine), dst(pd.dst_desc(), engine);
  const dnnl::convolution_forward conv(pd);
  report(c, "any", std::string("no reorders ") + pd.impl_info_str(), best_seconds([&] {
           conv.execute(stream, {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, wei}, {DNNL_ARG_DST, dst}});
           stream.wait();
         }));
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : omp_get_max_threads();
  omp_set_num_threads(threads);
  for (const ConvCase& c : {ConvCase{56, 64, 64, 3, 1}, ConvCase{28, 128, 128, 3, 1}, ConvCase{14, 256, 1024, 1, 1},
                            ConvCase{56, 128, 128, 3, 128}}) {
    bench_tactics(c, false, threads);
    bench_tactics(c, true, threads);
    bench_blocked(c);
  }
  return 0;
}
