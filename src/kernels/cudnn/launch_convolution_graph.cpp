#include <algorithm>

#include "kernels/cudnn/graph_builder.h"
#include "ops/linear/conv_shape.h"

namespace deepjit::cudnn {

namespace {

bool is_transposed(const std::string& op) { return op == "ConvTranspose" || op == "deepjit.ConvTranspose"; }

class ConvolutionBuilder final : public GraphBuilder {
 public:
  ConvolutionBuilder(const StepShape& shape, bool weights_last) : GraphBuilder(shape), weights_last_(weights_last) {}

 private:
  int add_dense(const TensorDesc& desc, const Dims& dims, bool channels_last, int input) {
    const Ints ordered = image_dims(dims, channels_last);
    return add_tensor(TensorSpec::Kind::INPUT, desc.dtype, ordered, image_strides(ordered, channels_last), input);
  }

  void set_operation() override {
    const int rank = in(0).dims.rank();
    if (rank < 3 || rank > 5) {
      g_.reason = "cuDNN convolves 1 to 3 spatial dims";
      return;
    }
    last_ = is_channels_last(shape_.step->attrs);
    g_.kind = is_transposed(shape_.step->op) ? Graph::Kind::TRANSPOSED : Graph::Kind::CONVOLUTION;
    set_windows();
    result_ = image_dims(shape_.outputs[0].dims, last_);
    result_strides_ = image_strides(result_, last_);
    g_.from = add_dense(in(0), in(0).dims, last_, 0);
    const Ints weights = image_dims(in(1).dims, false);
    g_.w = add_tensor(TensorSpec::Kind::INPUT, in(1).dtype, weights, image_strides(weights, weights_last_), 1);
    g_.to = add_virtual();
  }

  void set_windows() {
    const Attributes& attrs = shape_.step->attrs;
    const Ints image = spatial_dims(last_, to_vector(in(0).dims)), kernel = spatial_dims(false, to_vector(in(1).dims));
    const bool transposed = g_.kind == Graph::Kind::TRANSPOSED;
    const ConvGeometry g =
        transposed ? conv_transpose_geometry(attrs, image, kernel) : conv_geometry(attrs, image, kernel);
    if (g.kernel.size() == 1) {  // a second spatial dim of 1
      g_.strides = g_.dilations = {1};
      g_.pads_begin = g_.pads_end = {0};
    }
    for (size_t i = 0; i < g.kernel.size(); ++i) {
      const int64_t larger = transposed ? g.out[i] : g.in[i], windows = transposed ? g.in[i] : g.out[i];
      // The pad at the end that gives this many windows: what no window reaches needs none.
      const int64_t end = (windows - 1) * g.strides[i] + g.extent(i) - larger - g.pads_begin[i];
      if (end <= -g.strides[i]) g_.reason = "the result is larger than the windows reach";
      g_.strides.push_back(g.strides[i]);
      g_.dilations.push_back(g.dilations[i]);
      g_.pads_begin.push_back(g.pads_begin[i]);
      g_.pads_end.push_back(std::max<int64_t>(end, 0));
    }
  }

  // Dims that are missing in front are 1.
  int add_operand(int input) override {
    Dims dims = in(input).dims;
    while (dims.rank() < shape_.outputs[0].dims.rank()) dims.insert(0, 1);
    return add_dense(in(input), dims, last_, input);
  }

  void add_own_terms() override {
    if (!has_input(2)) return;
    const int rank = shape_.outputs[0].dims.rank();
    Dims dims = Dims::filled(rank, 1);
    dims[last_ ? rank - 1 : 1] = in(2).dims.count();
    append({Mode::ADD}, add_dense(in(2), dims, last_, 2));
  }

  bool weights_last_;
  bool last_ = false;
};

}  // namespace

Ints image_strides(const Ints& dims, bool channels_last) {
  Ints strides(dims.size(), 1);
  int64_t next = 1;
  if (channels_last) {
    strides[1] = next;
    next *= dims[1];
  }
  for (size_t i = dims.size(); i-- > 0;) {
    if (channels_last && i == 1) continue;
    strides[i] = next;
    next *= dims[i];
  }
  return strides;
}

Ints image_dims(const Dims& dims, bool channels_last) {
  Ints out{dims[0], channels_last ? dims.back() : dims[1]};
  if (dims.rank() == 3) out.push_back(1);
  for (int i = channels_last ? 1 : 2; i < dims.rank() - (channels_last ? 1 : 0); ++i) out.push_back(dims[i]);
  return out;
}

bool is_convolution(const std::string& op) { return is_transposed(op) || op == "Conv" || op == "deepjit.Conv"; }

Graph convolution_graph(const StepShape& shape, bool weights_last) {
  return ConvolutionBuilder(shape, weights_last).build();
}

}  // namespace deepjit::cudnn
