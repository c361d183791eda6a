#include <fmt/format.h>

#include <cstring>

#include "kernels/cudnn/graph.h"
#include "kernels/cudnn/graph_builder.h"
#include "kernels/nvrtc/attention_problem.h"
#include "ops/linear/conv_shape.h"

namespace deepjit::cudnn {

namespace {

template <typename F>
void for_each_tap(const Dims& dims, F&& body) {
  const int64_t rows = dims[0], channels = dims[1], taps = dims.count() / (rows * channels);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = 0; c < channels; ++c) {
        body((row * channels + c) * taps + tap, (row * taps + tap) * channels + c);  // plain, packed
      }
    }
  }
}

}  // namespace

bool is_graph_op(const Step& step) {
  return is_convolution(step.op) || is_product(step.op) || is_pool(step.op) || nvrtc_gpu::is_attention(step);
}

Graph graph_of(const StepShape& shape, bool weights_last) {
  const std::string& op = shape.step->op;
  if (is_convolution(op)) return convolution_graph(shape, weights_last);
  if (is_product(op)) return product_graph(shape);
  if (is_pool(op)) return pool_graph(shape);
  if (nvrtc_gpu::is_attention(*shape.step)) return attention_graph(shape);
  Graph none;
  none.reason = op + " is no operation of cuDNN";
  return none;
}

std::string to_string(const Graph& graph) {
  static const char* const kKinds[] = {"convolution", "transposed", "product", "pool", "attention"};
  std::string text = kKinds[static_cast<int>(graph.kind)];
  const auto add = [&](const std::vector<int64_t>& list) {
    text += " [";
    for (int64_t value : list) text += std::to_string(value) + ",";
    text += "]";
  };
  for (const std::vector<int64_t>* list : {&graph.strides, &graph.dilations, &graph.pads_begin, &graph.pads_end})
    add(*list);
  if (graph.kind == Graph::Kind::POOL) {
    text += " pool" + std::to_string(static_cast<int>(graph.pool));
    add(graph.window);
  }
  if (graph.tf32) text += " tf32";
  for (const TensorSpec& tensor : graph.tensors) {
    text +=
        fmt::format(" {}{} {} {}", static_cast<int>(tensor.kind), dtype_name(tensor.dtype), tensor.input, tensor.value);
    add(tensor.dims);
    add(tensor.strides);
    if (tensor.offset != 0) text += "+" + std::to_string(tensor.offset);
  }
  for (const PointwiseSpec& op : graph.pointwise) {
    text += fmt::format(" op{}({},{},{};{},{},{},{})", static_cast<int>(op.mode), op.x, op.b, op.y, op.lower, op.upper,
                        op.slope, op.factor);
  }
  return text;
}

bool packs_weights(const StepShape& shape) {
  return is_convolution(shape.step->op) && is_channels_last(shape.step->attrs) && shape.constants.size() > 1 &&
         shape.constants[1] != nullptr;
}

Tensor pack_weights(const Tensor& plain) {
  Tensor packed(plain.dtype(), plain.dims());
  const size_t size = dtype_size(plain.dtype());
  const auto* from = static_cast<const std::byte*>(plain.view().data);
  auto* to = static_cast<std::byte*>(packed.view().data);
  for_each_tap(plain.dims(), [&](int64_t a, int64_t b) {
    std::memcpy(to + static_cast<size_t>(b) * size, from + static_cast<size_t>(a) * size, size);
  });
  return packed;
}

Tensor unpack_weights(const Tensor& packed, const TensorDesc& plain) {
  if (packed.bytes() != plain.bytes() || plain.dims.rank() < 2 || plain.count() == 0) {
    throw Error(Code::ENGINE_RANGE, "packed weights do not fit their plain form " + plain.dims.to_string());
  }
  Tensor out(plain.dtype, plain.dims);
  const size_t size = dtype_size(plain.dtype);
  const auto* from = static_cast<const std::byte*>(packed.view().data);
  auto* to = static_cast<std::byte*>(out.view().data);
  for_each_tap(plain.dims, [&](int64_t a, int64_t b) {
    std::memcpy(to + static_cast<size_t>(a) * size, from + static_cast<size_t>(b) * size, size);
  });
  return out;
}

}  // namespace deepjit::cudnn
