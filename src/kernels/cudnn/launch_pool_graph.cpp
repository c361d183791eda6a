#include <algorithm>

#include "kernels/cudnn/graph_builder.h"
#include "ops/linear/conv_shape.h"

namespace deepjit::cudnn {

namespace {

bool is_global(const std::string& op) { return op.find("Global") != std::string::npos; }
bool is_max(const std::string& op) { return op.find("Max") != std::string::npos; }

std::string obstacle(const StepShape& shape) {
  const TensorDesc& x = shape.inputs[0];
  if (!is_handled(x.dtype)) return "element type " + std::string(dtype_name(x.dtype)) + " is not handled";
  if (x.dims.rank() != 4) return "cuDNN pools 2 spatial dims";
  if (!is_channels_last(shape.step->attrs)) return "cuDNN's pools of channels first are not asked for";
  if (x.count() == 0 || shape.outputs[0].count() == 0) return "an operand is empty";
  for (size_t i = 1; i < shape.outputs.size(); ++i) {
    if (shape.outputs[i].dtype != DType::UNDEFINED) return "cuDNN's indices are not ONNX's";
  }
  return "";
}

void set_windows(const StepShape& shape, const Ints& image, Graph& g) {
  const ConvGeometry geometry = pool_geometry(shape.step->attrs, image);
  const bool counts_pads = shape.step->attrs.get_int("count_include_pad", 0) != 0;
  if (g.pool == Pool::AVERAGE && counts_pads) g.pool = Pool::AVERAGE_WITH_PADS;
  for (size_t i = 0; i < image.size(); ++i) {
    // What the last window needs; with ceil_mode that is more than the attribute says.
    const int64_t end =
        (geometry.out[i] - 1) * geometry.strides[i] + geometry.kernel[i] - image[i] - geometry.pads_begin[i];
    if (geometry.dilations[i] != 1) g.reason = "cuDNN pools no dilated windows";
    if (counts_pads && end > geometry.pads_end[i]) g.reason = "cells beyond the padding are not counted";
    if (std::max(geometry.pads_begin[i], end) >= geometry.kernel[i]) g.reason = "a window lies in the padding";
    g.window.push_back(geometry.kernel[i]);
    g.strides.push_back(geometry.strides[i]);
    g.pads_begin.push_back(geometry.pads_begin[i]);
    g.pads_end.push_back(std::max<int64_t>(end, 0));
  }
}

}  // namespace

bool is_pool(const std::string& op) {
  const std::string base = op.rfind("deepjit.", 0) == 0 ? op.substr(8) : op;
  return base == "MaxPool" || base == "AveragePool" || base == "GlobalMaxPool" || base == "GlobalAveragePool";
}

Graph pool_graph(const StepShape& shape) {
  Graph g;
  g.kind = Graph::Kind::POOL;
  g.reason = obstacle(shape);
  if (!g.reason.empty()) return g;
  const std::string& op = shape.step->op;
  g.pool = is_max(op) ? Pool::MAX : Pool::AVERAGE;
  const Ints x = image_dims(shape.inputs[0].dims, true), y = image_dims(shape.outputs[0].dims, true);
  const Ints image(x.begin() + 2, x.end());
  if (is_global(op)) {
    g.window = image;
    g.strides = {1, 1};
    g.pads_begin = g.pads_end = {0, 0};
  } else {
    set_windows(shape, image, g);
  }
  g.from = 0;
  g.to = 1;
  g.tensors.push_back({TensorSpec::Kind::INPUT, shape.inputs[0].dtype, x, image_strides(x, true), 0});
  g.tensors.push_back({TensorSpec::Kind::OUTPUT, shape.outputs[0].dtype, y, image_strides(y, true)});
  return g;
}

}  // namespace deepjit::cudnn
