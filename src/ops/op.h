// What an operator is: its arity, its shape rule and its reference implementation.
//
// One file of this folder holds one family of ops; registry.cpp lists the families. An op here is the
// *canonical* form of an ONNX operator (the newest opset's; import translates older ones) or an op of our
// own ("deepjit.Conv"). Ops need base only: the runtime links them without any graph code, and uses the
// same shape rule with constant dims that the compiler uses with symbolic ones.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/attributes.h"
#include "base/dim.h"
#include "base/tensor.h"

namespace deepjit {

// What a shape rule sees. Throws Error(SHAPE_MISMATCH, TYPE, ATTRIBUTE, ...) for a wrong node;
// the caller adds the node's name.
class InferContext {
 public:
  virtual ~InferContext() = default;
  virtual const Attributes& attrs() const = 0;
  virtual int num_inputs() const = 0;
  virtual bool has_input(int i) const = 0;  // false for omitted optional inputs and i >= num_inputs()
  virtual const TensorType& input(int i) const = 0;
  // The data of input i when it is fully known (a constant), else nullptr.
  virtual const Tensor* input_data(int i) const = 0;
  // The elements of an integer input of rank 0 or 1 when they are known as expressions, else nullptr.
  // Known constants qualify too: prefer this to input_data for shapes, axes, starts and sizes.
  virtual const std::vector<Dim>* input_values(int i) const = 0;
  virtual int num_outputs() const = 0;
  virtual void set_output(int i, TensorType type) = 0;
  // The elements of an integer output of rank 0 or 1 (Shape, Gather, Concat, Add, Mul of shapes ...).
  virtual void set_output_values(int i, std::vector<Dim> values) = 0;
  // A dimension nobody knows yet. At run time, with all input shapes concrete, a dim that is still not
  // constant means that the output's shape depends on data.
  virtual Dim fresh_dim() = 0;

  // Conveniences over the above.
  DType dtype(int i) const { return input(i).dtype; }
  const Shape& shape(int i) const { return input(i).shape; }
  // Constant integers of input i (from input_values when all are constant), else nothing.
  std::optional<std::vector<int64_t>> constant_ints(int i) const;
  void set_output(int i, DType dtype, Shape shape) { set_output(i, TensorType{dtype, std::move(shape)}); }
  // A shape of `rank` fresh dims.
  Shape fresh_shape(int rank);
};

// What a reference implementation sees. All tensors are dense and row-major.
class EvalContext {
 public:
  virtual ~EvalContext() = default;
  virtual const Attributes& attrs() const = 0;
  virtual int num_inputs() const = 0;
  virtual bool has_input(int i) const = 0;
  virtual const TensorView& input(int i) const = 0;
  virtual int num_outputs() const = 0;
  virtual bool has_output(int i) const = 0;  // false when nobody reads the output: do not compute it
  // Memory for output i. Call once per wanted output. Where the shape rule already fixed the shape, it
  // must agree; otherwise the runtime allocates. Outputs never overlap inputs, except that a pointwise
  // op's output may be exactly one of its inputs' memory.
  virtual TensorView output(int i, DType dtype, const Dims& dims) = 0;
  // Temporary memory, 64-byte aligned, valid until evaluate returns.
  virtual void* scratch(size_t bytes) = 0;

  DType dtype(int i) const { return input(i).dtype; }
  const Dims& dims(int i) const { return input(i).dims; }
  template <typename T>
  T* data(int i) const {
    return input(i).as<T>();
  }
  std::vector<int64_t> ints(int i) const { return to_i64(input(i)); }
};

struct OpDef {
  std::string name;
  int min_inputs = 1;
  int max_inputs = 1;  // kMany for variadic
  int min_outputs = 1;
  int max_outputs = 1;
  std::function<void(InferContext&)> infer;
  std::function<void(EvalContext&)> evaluate;
  // False for ops whose result is not a function of inputs and attributes (random ops without seed):
  // never folded, never merged.
  bool deterministic = true;
  // Output element i depends only on input elements i (after broadcast): may run in place.
  bool pointwise = false;
  // The output is the input's bytes under another shape (Reshape, Squeeze, Flatten, Identity ...).
  bool view = false;
  // Inputs whose *values* (not only shapes) the shape rule reads: Reshape 1, Slice 1..4, Expand 1 ...
  std::vector<int> shape_inputs = {};
};

constexpr int kMany = 1 << 20;

class OpRegistry {
 public:
  void add(OpDef def);
  // nullptr when there is no such op.
  const OpDef* find(std::string_view name) const;
  const std::vector<const OpDef*>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<OpDef>> owned_;
  std::map<std::string_view, const OpDef*> by_name_;
  std::vector<const OpDef*> all_;
};

// All ops; built on first use, immutable afterwards.
const OpRegistry& op_registry();
// The op, or Error(UNSUPPORTED_OP).
const OpDef& find_op(std::string_view name);

// The families, one a file. Each adds its ops.
void add_math_ops(OpRegistry& registry);  // pointwise/math.cpp: unary and binary arithmetic, comparison, logic, bits
void add_activation_ops(
    OpRegistry& registry);                // pointwise/activation.cpp: Relu, Sigmoid, Gelu, HardSwish, PRelu, Clip ...
void add_cast_ops(OpRegistry& registry);  // pointwise/cast.cpp: Cast, CastLike, BitCast
void add_quantize_ops(
    OpRegistry& registry);  // pointwise/quantize.cpp: QuantizeLinear, DequantizeLinear, Dynamic..., QLinear*, *Integer
void add_random_ops(OpRegistry& registry);  // pointwise/random.cpp
void add_view_ops(OpRegistry& registry);  // shape/view.cpp: Reshape, Squeeze, Unsqueeze, Flatten, Identity, Shape, Size
void add_movement_ops(
    OpRegistry& registry);                 // shape/movement.cpp: Transpose, Slice, Concat, Split, Pad, Tile, Expand ...
void add_index_ops(OpRegistry& registry);  // index/index.cpp: Gather*, Scatter*, OneHot, NonZero, Compress, Unique ...
void add_generate_ops(
    OpRegistry& registry);  // shape/generate.cpp: Constant, ConstantOfShape, Range, EyeLike, Trilu, windows
void add_sort_ops(OpRegistry& registry);    // index/sort.cpp: TopK, ArgMax, ArgMin, CumSum, NonMaxSuppression
void add_reduce_ops(OpRegistry& registry);  // reduce/reduce.cpp
void add_matmul_ops(OpRegistry& registry);  // linear/matmul.cpp: MatMul, Gemm, Einsum, deepjit.MatMul, Det
void add_conv_ops(OpRegistry& registry);    // linear/conv.cpp: Conv, ConvTranspose, deepjit.Conv, DeformConv, Col2Im
void add_pool_ops(OpRegistry& registry);    // nn/pool.cpp
void add_norm_ops(OpRegistry& registry);    // nn/norm.cpp: BatchNormalization, LayerNormalization, Softmax, LRN ...
void add_rnn_ops(OpRegistry& registry);     // nn/rnn.cpp: RNN, GRU, LSTM
void add_image_ops(
    OpRegistry& registry);  // signal/image.cpp: Resize, GridSample, RoiAlign, AffineGrid, DepthToSpace ...
void add_attention_ops(OpRegistry& registry);  // nn/attention.cpp: Attention, RotaryEmbedding, TensorScatter
void add_signal_ops(OpRegistry& registry);     // signal/signal.cpp: DFT, STFT, MelWeightMatrix
void add_loss_ops(OpRegistry& registry);       // nn/loss.cpp: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss
void add_control_ops(OpRegistry& registry);    // control.cpp: If, Loop, Scan: arity only, the runtime runs them

}  // namespace deepjit
