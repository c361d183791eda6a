#include <algorithm>

#include "kernels/cudnn/graph_builder.h"

namespace deepjit::cudnn {

namespace {

constexpr int kMostRank = 5;

class ProductBuilder final : public GraphBuilder {
 public:
  using GraphBuilder::GraphBuilder;

 private:
  void set_operation() override {
    const bool gemm = shape_.step->op == "Gemm";
    const Attributes& attrs = shape_.step->attrs;
    Dims a = in(0).dims, b = in(1).dims;
    row_ = a.rank() == 1;
    column_ = b.rank() == 1;
    if (a.rank() == 0 || b.rank() == 0) g_.reason = "an operand is a scalar";
    if (std::max(a.rank(), b.rank()) > kMostRank) g_.reason = "the product has too many batch dims";
    const float beta = gemm ? attrs.get_float("beta", 1) : 1;
    if (has_input(2) && beta != 0 && beta != 1) g_.reason = "cuDNN scales no addend";
    if (!g_.reason.empty()) return;
    if (row_) a.insert(0, 1);
    if (column_) b.push_back(1);
    const bool trans_a = !row_ && attrs.get_int(gemm ? "transA" : "trans_a", 0) != 0;
    const bool trans_b = !column_ && attrs.get_int(gemm ? "transB" : "trans_b", 0) != 0;
    g_.kind = Graph::Kind::PRODUCT;
    rank_ = std::max({a.rank(), b.rank(), 3});
    g_.from = add_matrix(in(0).dtype, a, trans_a, 0);
    g_.w = add_matrix(in(1).dtype, b, trans_b, 1);
    const TensorSpec& left = g_.tensors[static_cast<size_t>(g_.from)];
    const TensorSpec& right = g_.tensors[static_cast<size_t>(g_.w)];
    const auto rank = static_cast<size_t>(rank_);
    for (size_t i = 0; i + 2 < rank; ++i) result_.push_back(std::max(left.dims[i], right.dims[i]));
    result_.push_back(left.dims[rank - 2]);
    result_.push_back(right.dims[rank - 1]);
    result_strides_ = dense(result_);
    join_rows();
    g_.to = add_virtual();
  }

  static Ints dense(const Ints& dims) {
    Ints strides(dims.size(), 1);
    for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
    return strides;
  }

  // `transposed`: its last two dims lie in memory the other way round.
  int add_matrix(DType dtype, const Dims& in_memory, bool transposed, int input) {
    Ints dims(in_memory.begin(), in_memory.end());
    dims.insert(dims.begin(), static_cast<size_t>(rank_) - dims.size(), 1);
    Ints strides = dense(dims);
    if (transposed) {
      std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
      std::swap(strides[dims.size() - 1], strides[dims.size() - 2]);
    }
    return add_tensor(TensorSpec::Kind::INPUT, dtype, dims, strides, input);
  }

  // Rows of a batch that B does not depend on are more rows of one product, where all operands go along.
  void join_rows() {
    TensorSpec& a = g_.tensors[static_cast<size_t>(g_.from)];
    const Ints& b = g_.tensors[static_cast<size_t>(g_.w)].dims;
    const auto rank = static_cast<size_t>(rank_);
    joined_ = a.strides == dense(a.dims);
    for (size_t i = 0; i + 2 < rank; ++i) joined_ = joined_ && b[i] == 1;
    for (int input = 2; input < static_cast<int>(shape_.inputs.size()); ++input) {
      if (!has_input(input)) continue;
      const int64_t rows = joined(operand_dims(input))[rank - 2];
      joined_ = joined_ && (rows == 1 || rows == joined(result_)[rank - 2]);
    }
    if (!joined_) return;
    a.dims = in_three(joined(a.dims));
    a.strides = dense(a.dims);
    TensorSpec& w = g_.tensors[static_cast<size_t>(g_.w)];
    w.dims = in_three(w.dims);
    w.strides = in_three(w.strides);
    result_ = in_three(joined(result_));
    result_strides_ = dense(result_);
  }
  // The last three: cuDNN has kernels for one batch dim, and those in front are 1 now.
  static Ints in_three(const Ints& dims) { return {dims.end() - 3, dims.end()}; }
  static Ints joined(Ints dims) {
    for (size_t i = 0; i + 2 < dims.size(); ++i) {
      dims[dims.size() - 2] *= dims[i];
      dims[i] = 1;
    }
    return dims;
  }

  // Dims of an operand that broadcasts to the result: those that are missing in front are 1.
  Ints operand_dims(int input) const {
    Ints dims(in(input).dims.begin(), in(input).dims.end());
    if (column_) dims.push_back(1);
    if (row_ && !dims.empty()) dims.insert(dims.end() - 1, 1);
    while (dims.size() < static_cast<size_t>(rank_)) dims.insert(dims.begin(), 1);
    return dims;
  }

  int add_operand(int input) override {
    const Ints dims = joined_ ? in_three(joined(operand_dims(input))) : operand_dims(input);
    return add_tensor(TensorSpec::Kind::INPUT, in(input).dtype, dims, dense(dims), input);
  }

  void add_own_terms() override {
    const Attributes& attrs = shape_.step->attrs;
    const bool gemm = shape_.step->op == "Gemm";
    if (gemm) append_linear(attrs.get_float("alpha", 1), 0);
    if (has_input(2) && !(gemm && attrs.get_float("beta", 1) == 0)) append({Mode::ADD}, add_operand(2));
  }

  bool row_ = false, column_ = false;  // A, B is a vector
  bool joined_ = false;
  int rank_ = 3;
};

}  // namespace

bool is_product(const std::string& op) { return op == "MatMul" || op == "deepjit.MatMul" || op == "Gemm"; }

Graph product_graph(const StepShape& shape) { return ProductBuilder(shape).build(); }

}  // namespace deepjit::cudnn
