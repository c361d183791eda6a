// A step as one of cuDNN's operation graphs: a convolution or a matrix product, and behind it pointwise operations for
// the bias and the epilogue; or a pool or an attention alone. Pure: needs no library.
//
// Conv and ConvTranspose, channels first and last, 1 to 3 spatial dims; MatMul and Gemm; pools of 2 spatial dims,
// channels last; attention of 16-bit floats without a mask; and their deepjit forms. Dims of images stand in the order
// batch, channels, spatial dims, those of matrices in the order batch, rows, columns, those of heads in the order
// batch, head, row, element; strides tell the layout. Between the operations values are float32.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace deepjit::cudnn {

constexpr const char* kWeightsLast = "OHWI";  // the format of packed weights: channels last

struct TensorSpec {
  enum class Kind { INPUT, OUTPUT, VIRTUAL, SCALAR };
  Kind kind = Kind::VIRTUAL;
  DType dtype = DType::FLOAT32;
  std::vector<int64_t> dims, strides;
  int input = -1;      // INPUT: of the step
  float value = 0;     // SCALAR: a constant of the graph
  int64_t offset = 0;  // INPUT: its first element, behind that of the operand
};

// Numbers are those of cuDNN's modes.
enum class Mode {
  ADD = 0,
  MUL = 1,
  SQRT = 4,
  DIV = 6,
  SUB = 9,
  ABS = 10,
  EXP = 13,
  RELU = 100,
  TANH = 101,
  SIGMOID = 102,
  ELU = 103,
  GELU = 104,
  SOFTPLUS = 105,
  SWISH = 106,
  GELU_TANH = 107
};

enum class Pool { AVERAGE_WITH_PADS = 2, MAX = 3, AVERAGE = 4 };

struct PointwiseSpec {
  Mode mode = Mode::ADD;
  int x = -1, b = -1, y = -1;  // tensors; b of modes with two operands
  // RELU: values below `lower` continue with `slope`, none goes above `upper`.
  float lower = 0, upper = std::numeric_limits<float>::infinity(), slope = 0;
  float factor = 1;  // ELU's alpha, SWISH's beta
};

struct Graph {
  std::vector<TensorSpec> tensors;  // identified by their place, from 1
  // TRANSPOSED: the convolution of which cuDNN thinks as going back from a result's gradient to its image's.
  enum class Kind { CONVOLUTION, TRANSPOSED, PRODUCT, POOL, ATTENTION };
  Kind kind = Kind::CONVOLUTION;
  // An image and its weights, the factors, an image, or queries and keys; and the result.
  int from = -1, w = -1, to = -1;
  int values = -1, scale = -1;                                            // of an attention
  std::vector<int64_t> window, strides, dilations, pads_begin, pads_end;  // of windows
  Pool pool = Pool::MAX;
  std::vector<PointwiseSpec> pointwise;
  bool tf32 = false;
  std::string reason;  // why the step is no such graph; "" when it is one
};

// Is the op of one of the kinds? Others are none of cuDNN's business.
bool is_graph_op(const Step& step);

// weights_last: the weights are packed channels last.
Graph graph_of(const StepShape& shape, bool weights_last);
// All of it, as the key to what is made of it.
std::string to_string(const Graph& graph);

// Constant weights are packed where the image is channels last.
bool packs_weights(const StepShape& shape);
Tensor pack_weights(const Tensor& plain);
Tensor unpack_weights(const Tensor& packed, const TensorDesc& plain);

}  // namespace deepjit::cudnn
