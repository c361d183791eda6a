// What the graphs of convolutions and of matrix products have in common while they are built: tensors, and behind the
// first operation pointwise ones for the epilogue.
#pragma once

#include "kernels/cudnn/graph.h"
#include "ops/linear/epilogue.h"

namespace deepjit::cudnn {

using Ints = std::vector<int64_t>;

class GraphBuilder {
 public:
  explicit GraphBuilder(const StepShape& shape) : shape_(shape) {}
  virtual ~GraphBuilder() = default;

  Graph build();

 protected:
  // Sets the first operation, result_, result_strides_ and reason.
  virtual void set_operation() = 0;
  // Adds the tensor of an input that broadcasts to the result; sets reason where it does not.
  virtual int add_operand(int input) = 0;
  // Adds what the op itself does behind its first operation, such as the bias.
  virtual void add_own_terms() = 0;

  bool has_input(int k) const {
    return static_cast<size_t>(k) < shape_.inputs.size() &&
           shape_.inputs[static_cast<size_t>(k)].dtype != DType::UNDEFINED;
  }
  const TensorDesc& in(int k) const { return shape_.inputs[static_cast<size_t>(k)]; }

  int add_tensor(TensorSpec::Kind kind, DType dtype, const Ints& dims, const Ints& strides, int input = -1);
  int add_virtual() { return add_tensor(TensorSpec::Kind::VIRTUAL, DType::FLOAT32, result_, result_strides_); }
  int add_scalar(float value);
  // Appends an operation on the last value.
  void append(PointwiseSpec spec, int b = -1);
  void append_linear(float factor, float addend);

  const StepShape& shape_;
  Graph g_;
  Ints result_, result_strides_;

 private:
  std::string obstacle() const;
  void append_op(const EpilogueOp& op);
  void add_epilogue();

  int value_ = -1;  // the tensor that holds the value so far
};

// Dims in memory order as batch, channels and at least two spatial dims, and strides of such dims that lie densely in
// memory, channels last or first.
Ints image_dims(const Dims& dims, bool channels_last);
Ints image_strides(const Ints& dims, bool channels_last);
// Does cuDNN compute with it? float32 and the 16-bit floats.
bool is_handled(DType dtype);

// Of each kind; reason says why a step is none.
Graph convolution_graph(const StepShape& shape, bool weights_last);
Graph product_graph(const StepShape& shape);
Graph pool_graph(const StepShape& shape);
Graph attention_graph(const StepShape& shape);
bool is_convolution(const std::string& op);
bool is_product(const std::string& op);
bool is_pool(const std::string& op);

}  // namespace deepjit::cudnn
