#include "kernels/cudnn/graph_builder.h"
#include "kernels/nvrtc/attention_problem.h"

namespace deepjit::cudnn {

namespace {

constexpr int64_t kElementsOfAlignment = 8;  // 16 bytes of 16-bit floats

}  // namespace

// Sizes and strides are those of the generated kernel, which takes the same steps and masks too.
Graph attention_graph(const StepShape& shape) {
  Graph g;
  g.kind = Graph::Kind::ATTENTION;
  const nvrtc_gpu::AttentionProblem p = nvrtc_gpu::attention_problem(shape);
  g.reason = p.reason;
  if (g.reason.empty() && (p.mask != DType::UNDEFINED || p.causal)) g.reason = "cuDNN's attention takes no mask";
  if (!g.reason.empty()) return g;
  const auto add = [&](TensorSpec::Kind kind, int64_t heads, int64_t rows, const int64_t* strides, int input) {
    g.tensors.push_back({kind, p.type, {p.batch, heads, rows, p.head}, {strides[0], strides[1], strides[2], 1}, input});
    return static_cast<int>(g.tensors.size()) - 1;
  };
  const int64_t* const strides = p.numbers.data() + 2;  // behind queries and keys: of Q, K, V and the result
  const int64_t* const starts = p.numbers.data() + 18;  // behind those and the mask's
  g.from = add(TensorSpec::Kind::INPUT, p.heads, p.queries, strides, 0);
  g.w = add(TensorSpec::Kind::INPUT, p.kv_heads, p.keys, strides + 3, 1);
  g.values = add(TensorSpec::Kind::INPUT, p.kv_heads, p.keys, strides + 6, 2);
  g.to = add(TensorSpec::Kind::OUTPUT, p.heads, p.queries, strides + 9, -1);
  g.scale = static_cast<int>(g.tensors.size());
  g.tensors.push_back(
      {TensorSpec::Kind::SCALAR, DType::FLOAT32, {1, 1, 1, 1}, {1, 1, 1, 1}, -1, static_cast<float>(p.scale)});
  for (size_t i = 0; i < 3; ++i) {
    g.tensors[i].offset = starts[i];
    if (starts[i] % kElementsOfAlignment != 0) g.reason = "an operand starts at an odd place";
  }
  return g;
}

}  // namespace deepjit::cudnn
