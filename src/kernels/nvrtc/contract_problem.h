// A convolution, matrix product or pool at concrete shapes, as generated kernels see it (codegen/contract): what is
// built into a kernel, and the numbers that a launch gives it. Both sides of the provider make it from the step; needs
// no code generator.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace deepjit::nvrtc_gpu {

// One op of an epilogue; ops/linear/epilogue.h says what they mean. An operand is multiplied by alpha first.
struct EpilogueTerm {
  std::string name;
  double alpha = 1, beta = 0;
  int operand = -1;  // its place in ContractProblem::operands
};

// How an operand of the epilogue lies over the result; codegen/contract/epilogue.h tells what `rows` means.
struct EpilogueSource {
  int input = -1;
  DType dtype = DType::FLOAT32;
  std::string rows;
  bool columns = false;
  int64_t extents[2] = {1, 1};  // of the second and third segment of rows
};

struct ContractProblem {
  enum class Kind { PRODUCT, IMAGE, DEPTHWISE, MAXIMUM, AVERAGE };
  std::string reason;  // why there is no such kernel; then nothing else holds
  Kind kind = Kind::PRODUCT;
  DType type = DType::FLOAT32;
  // Products: C[m, n] = A[m, k] B[n, k]; `columns`: the elements of m (of A), of n (of B) lie together, not those of k.
  bool a_columns = false, b_columns = false;
  bool weights = false;  // B is a constant, laid out by pack_weights
  bool n_known = false, k_known = false;
  int64_t batch = 1, m = 0, n = 0, k = 0, lda = 0, ldb = 0;
  bool batched = false;  // the batch has operands of its own, at these strides; the last two extents
  int64_t extents[2] = {1, 1}, a_strides[3] = {0, 0, 0}, b_strides[3] = {0, 0, 0};
  int64_t groups = 1;  // of an image
  // Images and windows: rows of pixels with channels last.
  int64_t images = 0, height = 0, width = 0, out_height = 0, out_width = 0;
  int64_t channels = 0, all_channels = 0;  // of a group, of a pixel
  int64_t kernel[2] = {1, 1}, strides[2] = {1, 1}, dilations[2] = {1, 1}, pads[2] = {0, 0}, pads_end[2] = {0, 0};
  bool transposed = false;
  bool counts_pads = false;
  std::vector<EpilogueTerm> epilogue;
  std::vector<EpilogueSource> operands;
  // Of a region of pointwise steps before a product: what they do to A's elements.
  std::vector<EpilogueTerm> prologue;
  std::vector<EpilogueSource> prologue_operands;

  bool is_product() const { return kind == Kind::PRODUCT || kind == Kind::IMAGE; }
  int64_t chunk() const { return type == DType::FLOAT32 ? 4 : 8; }
  // All that a kernel has built in: kernels of equal text serve each other's shapes.
  std::string built_in() const;
};

// Of numbers that are not negative.
inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
inline int64_t round_up(int64_t a, int64_t to) { return checked_mul(ceil_div(a, to), to); }

inline bool has_operand(const StepShape& shape, size_t i) {
  return i < shape.inputs.size() && shape.inputs[i].dtype != DType::UNDEFINED;
}

// Is the step a convolution, matrix product or pool?
bool is_contraction(const Step& step);

// Also of a region whose last step is a product of plain rows, behind pointwise steps that only it reads: its first
// operand is what they start from, its second the product's. Never throws for what it cannot do: `reason` says so.
ContractProblem contract_problem(const StepShape& shape);

// Where the model has weights [group][n][channel][place] or [group][channel][n][place], kernels read
// [group][n][place][channel], the channels rounded up to whole chunks. Products and depthwise convolutions are cases of
// this: a batch of groups with one place, and places for n.
struct WeightLayout {
  int64_t groups = 1, n = 1, channels = 1, places = 1, padded = 1;
  bool channels_first = false;
  // Rows [n][k] of one group cut into tiles of so many rows and 128 bytes, the chunks of a row in the order of their
  // numbers xor the row's, modulo 8; ragged ones filled with zeros. 0: not cut.
  int64_t tile = 0;

  // The format of the packed operand; parse throws Error(ENGINE_RANGE).
  std::string to_string() const;
  static WeightLayout parse(const std::string& text);
};
WeightLayout weight_layout(const ContractProblem& problem, const StepShape& shape);
Tensor pack_weights(const WeightLayout& layout, const Tensor& plain);
Tensor unpack_weights(const WeightLayout& layout, const Tensor& packed, const TensorDesc& plain);

}  // namespace deepjit::nvrtc_gpu
