#include <algorithm>

#include "kernels/cublaslt/product.h"
#include "ops/linear/conv_shape.h"
#include "ops/linear/epilogue.h"
#include "program/tf32.h"

namespace deepjit::cublaslt {

namespace {

constexpr size_t kMostLaunches = 16;

bool has_input(const StepShape& shape, int k) {
  return static_cast<size_t>(k) < shape.inputs.size() && shape.inputs[static_cast<size_t>(k)].dtype != DType::UNDEFINED;
}
const TensorDesc& in(const StepShape& shape, int k) { return shape.inputs[static_cast<size_t>(k)]; }

// One dim of the batch: its size and what a step along it is to each operand.
struct BatchDim {
  int64_t size = 1;
  Product::Offsets stride;
};

// The product as it is built up.
class Builder {
 public:
  explicit Builder(const StepShape& shape) : shape_(shape) {}

  Product build() {
    const std::string& op = shape_.step->op;
    p_.reason = obstacle();
    if (!p_.reason.empty()) return p_;
    p_.tf32 = p_.dtype == DType::FLOAT32 && shape_.program != nullptr && may_use_tf32(*shape_.program, *shape_.step);
    op == "deepjit.Conv" || op == "Conv" ? set_convolution() : set_matrices();
    if (p_.reason.empty()) add_terms();
    if (p_.reason.empty()) set_batch();
    return p_;
  }

 private:
  // An element type or an empty operand, whatever the op.
  std::string obstacle() {
    const std::string& op = shape_.step->op;
    if (!cublaslt::is_product_op(op) || !has_input(shape_, 0) || !has_input(shape_, 1) || shape_.outputs.empty()) {
      return op + " is no matrix product";
    }
    p_.dtype = shape_.outputs[0].dtype;
    if (p_.dtype != DType::FLOAT32 && p_.dtype != DType::FLOAT16 && p_.dtype != DType::BFLOAT16) {
      return "element type " + std::string(dtype_name(p_.dtype)) + " is not handled";
    }
    for (const TensorDesc& desc : shape_.inputs) {
      if (desc.dtype == DType::UNDEFINED) continue;
      if (desc.dtype != p_.dtype) return "operands of several element types";
      if (desc.count() == 0) return "an operand is empty";
    }
    return shape_.outputs[0].count() == 0 ? "an operand is empty" : "";
  }

  void set_matrices() {
    const bool gemm = shape_.step->op == "Gemm";
    const Attributes& attrs = shape_.step->attrs;
    Dims a = in(shape_, 0).dims, b = in(shape_, 1).dims;
    row_ = a.rank() == 1;
    column_ = b.rank() == 1;
    if (a.rank() == 0 || b.rank() == 0) {
      p_.reason = "an operand is a scalar";
      return;
    }
    if (row_) a.insert(0, 1);
    if (column_) b.push_back(1);
    p_.trans_a = !row_ && attrs.get_int(gemm ? "transA" : "trans_a", 0) != 0;
    p_.trans_b = !column_ && attrs.get_int(gemm ? "transB" : "trans_b", 0) != 0;
    if (gemm) {
      p_.alpha = attrs.get_float("alpha", 1);
      gemm_beta_ = attrs.get_float("beta", 1);
    }
    const int ra = a.rank(), rb = b.rank();
    p_.m = p_.trans_a ? a[ra - 1] : a[ra - 2];
    p_.k = p_.trans_a ? a[ra - 2] : a[ra - 1];
    p_.n = p_.trans_b ? b[rb - 2] : b[rb - 1];
    const int batch = std::max(ra, rb) - 2;
    dims_.resize(static_cast<size_t>(batch));
    stride_of(a, &Product::Offsets::a, true);
    stride_of(b, &Product::Offsets::b, true);
  }

  // A 1x1 window at every pixel: the image's pixels are the rows of A, W is [n, k] as it is.
  void set_convolution() {
    const Attributes& attrs = shape_.step->attrs;
    const Dims &x = in(shape_, 0).dims, &w = in(shape_, 1).dims;
    if (!is_channels_last(attrs)) {
      p_.reason = "the image is channels-first";
      return;
    }
    const ConvGeometry g = conv_geometry(attrs, spatial_dims(true, to_vector(x)), spatial_dims(false, to_vector(w)));
    bool plain = g.group == 1;
    for (size_t i = 0; i < g.kernel.size(); ++i) {
      plain = plain && g.kernel[i] == 1 && g.strides[i] == 1 && g.pads_begin[i] == 0 && g.pads_end[i] == 0;
    }
    if (!plain) {
      p_.reason = "the convolution is no matrix product: 1x1 windows, stride 1, one group and no pads are";
      return;
    }
    p_.k = x.back();
    p_.n = w[0];
    p_.m = x.count() / x.back();
    p_.trans_b = true;
    pixels_ = true;
  }

  // Strides of an operand's leading dims; `grow`: the batch gets the operand's sizes. False when they do not fit.
  bool stride_of(const Dims& dims, int64_t Product::Offsets::*member, bool grow) {
    const Dims own = dims.strides();
    const size_t leading = static_cast<size_t>(dims.rank()) - 2;
    if (leading > dims_.size()) return false;
    for (size_t i = 0; i < leading; ++i) {
      BatchDim& dim = dims_[dims_.size() - leading + i];
      const int64_t size = dims[static_cast<int>(i)];
      if (size == 1) continue;
      if (grow) dim.size = size;
      if (size != dim.size) return false;
      dim.stride.*member = own[static_cast<int>(i)];
    }
    return true;
  }

  // Adds input `input` to what there is: as the bias or as C.
  void add(int input) {
    Dims dims = in(shape_, input).dims;
    const int64_t count = dims.count();
    const int64_t last = dims.rank() == 0 ? 1 : dims.back();
    const int64_t rows = batch_count() * p_.m;
    const bool vector = !column_ ? last == p_.n && count == p_.n : count == 1;
    const float beta = input == 2 && shape_.step->op == "Gemm" ? gemm_beta_ : 1;
    if (vector && beta == 1 && p_.bias_input < 0) {
      p_.bias_input = input;
      return;
    }
    if (p_.c_input >= 0) {
      p_.reason = "cuBLASLt adds one vector and one matrix, not more";
      return;
    }
    p_.c_input = input;
    p_.beta = beta;
    if (pixels_) {
      if (count != rows * p_.n) p_.reason = "an addend is neither a vector nor as large as the result";
      return;
    }
    if (column_) dims.push_back(1);
    if (row_ && dims.rank() > 0) dims.insert(dims.rank() - 1, 1);
    const bool matrix = dims.rank() >= 2 && dims[dims.rank() - 2] == p_.m && dims.back() == p_.n;
    if (!matrix || !stride_of(dims, &Product::Offsets::c, false)) {
      p_.reason = "an addend is neither a vector nor as large as the result";
    }
  }

  int64_t batch_count() const {
    int64_t count = 1;
    for (const BatchDim& dim : dims_) count *= dim.size;
    return count;
  }

  // The third input and the epilogue.
  void add_terms() {
    if (has_input(shape_, 2) && !(shape_.step->op == "Gemm" && gemm_beta_ == 0)) add(2);
    for (const EpilogueOp& op : epilogue_of(shape_.step->attrs)) {
      if (!p_.reason.empty()) return;
      const bool plain = p_.bias_input < 0 && p_.c_input < 0 && p_.activation == Activation::NONE;
      if (p_.activation != Activation::NONE) {
        p_.reason = "cuBLASLt does nothing behind the activation, such as " + to_string(op);
      } else if (op.name == "Relu") {
        p_.activation = Activation::RELU;
      } else if (op.name == "GeluTanh") {
        p_.activation = Activation::GELU_TANH;
      } else if (op.name == "Add" && has_input(shape_, op.operand)) {
        add(op.operand);
      } else if (op.name == "Linear" && op.beta == 0 && plain) {
        p_.alpha *= op.alpha;
      } else {
        p_.reason = "cuBLASLt has no epilogue " + to_string(op);
      }
    }
  }

  // Rows of a batch that B does not depend on are more rows of one product; other dims merge where all strides allow.
  void set_batch() {
    int64_t y = p_.m * p_.n;
    for (size_t i = dims_.size(); i-- > 0;) {
      dims_[i].stride.y = y;
      y *= dims_[i].size;
    }
    std::erase_if(dims_, [](const BatchDim& dim) { return dim.size == 1; });
    for (size_t i = dims_.size(); i-- > 1;) {
      if (!merges(dims_[i - 1].stride, dims_[i].stride, dims_[i].size)) continue;
      dims_[i].size *= dims_[i - 1].size;
      dims_.erase(dims_.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    }
    while (!dims_.empty() && is_more_rows(dims_.back())) {
      p_.m *= dims_.back().size;
      dims_.pop_back();
    }
    if (!dims_.empty()) {
      const auto largest = std::max_element(dims_.begin(), dims_.end(),
                                            [](const BatchDim& a, const BatchDim& b) { return a.size < b.size; });
      p_.batch = largest->size;
      p_.stride = largest->stride;
      dims_.erase(largest);
    }
    set_launches();
  }

  static bool merges(const Product::Offsets& outer, const Product::Offsets& inner, int64_t size) {
    return outer.a == inner.a * size && outer.b == inner.b * size && outer.c == inner.c * size &&
           outer.y == inner.y * size;
  }
  bool is_more_rows(const BatchDim& dim) const {
    return !p_.trans_a && dim.stride.b == 0 && dim.stride.a == p_.m * p_.k && dim.stride.y == p_.m * p_.n &&
           (p_.c_input < 0 || dim.stride.c == p_.m * p_.n);
  }

  void set_launches() {
    int64_t count = 1;
    for (const BatchDim& dim : dims_) count *= dim.size;
    if (count > static_cast<int64_t>(kMostLaunches)) {
      p_.reason = "batch dims that broadcast in turns would take " + std::to_string(count) + " launches";
      return;
    }
    p_.launches = {{}};
    for (const BatchDim& dim : dims_) {
      std::vector<Product::Offsets> more;
      for (const Product::Offsets& at : p_.launches) {
        for (int64_t i = 0; i < dim.size; ++i) {
          more.push_back(
              {at.a + i * dim.stride.a, at.b + i * dim.stride.b, at.c + i * dim.stride.c, at.y + i * dim.stride.y});
        }
      }
      p_.launches = std::move(more);
    }
  }

  const StepShape& shape_;
  Product p_;
  std::vector<BatchDim> dims_;
  bool row_ = false, column_ = false;  // A, B is a vector
  bool pixels_ = false;                // of a convolution
  float gemm_beta_ = 1;
};

}  // namespace

bool is_product_op(const std::string& op) {
  return op == "MatMul" || op == "deepjit.MatMul" || op == "Gemm" || op == "Conv" || op == "deepjit.Conv";
}

Product product_of(const StepShape& shape) { return Builder(shape).build(); }

}  // namespace deepjit::cublaslt
