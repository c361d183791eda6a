#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "kernels/nvrtc/contract_problem.h"
#include "kernels/nvrtc/contract_rows.h"
#include "ops/linear/conv_shape.h"
#include "ops/linear/epilogue.h"
#include "program/base_op.h"

namespace deepjit::nvrtc_gpu {

namespace {

using Kind = ContractProblem::Kind;

bool is_constant(const StepShape& shape, size_t i) {
  const int32_t buffer = shape.step->inputs[i];
  return buffer >= 0 && shape.program->buffers[static_cast<size_t>(buffer)].is_constant;
}

// Is this dim the same at every shape? `from_end` counts from the last.
bool is_known(const StepShape& shape, int32_t buffer, int from_end) {
  const Shape& s = shape.program->buffers[static_cast<size_t>(buffer)].type.shape;
  return s.ranked() && s.rank() >= from_end && s[s.rank() - from_end].is_const();
}

// ---- epilogues --------------------------------------------------------------------------------------

// Adds a term, and its operand where it has one.
void add_term(const StepShape& shape, const Dims& result, EpilogueTerm term, int input, ContractProblem& p) {
  if (input >= 0) {
    EpilogueSource source;
    source.input = input;
    source.dtype = shape.inputs[static_cast<size_t>(input)].dtype;
    if (!is_float(source.dtype) || source.dtype == DType::FLOAT64 || dtype_size(source.dtype) < 2) {
      p.reason = "an operand of the epilogue is " + std::string(dtype_name(source.dtype));
      return;
    }
    Dims dims = shape.inputs[static_cast<size_t>(input)].dims;
    if (result.rank() > shape.outputs[0].dims.rank()) dims.push_back(1);
    if (!describe_rows(dims, result, source)) {
      p.reason = "an operand " + dims.to_string() + " of the epilogue lies in no rows of " + result.to_string();
      return;
    }
    term.operand = static_cast<int>(p.operands.size());
    p.operands.push_back(std::move(source));
  }
  p.epilogue.push_back(std::move(term));
}

// `result`: the dims of the output, the last being the columns.
void add_epilogue(const StepShape& shape, const Dims& result, ContractProblem& p) {
  if (shape.step->op == "Gemm") {
    const double alpha = shape.step->attrs.get_float("alpha", 1), beta = shape.step->attrs.get_float("beta", 1);
    if (alpha != 1) add_term(shape, result, {"Linear", alpha, 0, -1}, -1, p);
    if (has_operand(shape, 2) && beta != 0) add_term(shape, result, {"Add", beta, 0, -1}, 2, p);
    return;
  }
  if (p.is_product() || p.kind == Kind::DEPTHWISE) {
    if (has_operand(shape, 2)) add_term(shape, result, {"Add", 1, 0, -1}, 2, p);
  }
  for (const EpilogueOp& op : epilogue_of(shape.step->attrs)) {
    if (op.operand >= 0 && !has_operand(shape, static_cast<size_t>(op.operand))) {
      p.reason = "an operand of the epilogue is missing";
      return;
    }
    const double alpha = op.operand >= 0 ? 1 : static_cast<double>(op.alpha);
    add_term(shape, result, {op.name, alpha, static_cast<double>(op.beta), -1}, op.operand, p);
  }
}

// ---- products ---------------------------------------------------------------------------------------

struct BatchAxis {
  int64_t extent, a, b;
};

// Batch dims, those that every operand walks as one made one.
std::vector<BatchAxis> batch_axes(const Dims& a, const Dims& b, int64_t a_matrix, int64_t b_matrix) {
  const int count = std::max(a.rank(), b.rank()) - 2;
  std::vector<BatchAxis> axes;
  int64_t a_stride = a_matrix, b_stride = b_matrix;
  for (int i = 1; i <= count; ++i) {
    const int ia = a.rank() - 2 - i, ib = b.rank() - 2 - i;
    const int64_t da = ia >= 0 ? a[ia] : 1, db = ib >= 0 ? b[ib] : 1;
    const BatchAxis axis{std::max(da, db), da == 1 ? 0 : a_stride, db == 1 ? 0 : b_stride};
    a_stride = checked_mul(a_stride, da);
    b_stride = checked_mul(b_stride, db);
    if (axis.extent == 1) continue;
    if (!axes.empty()) {
      BatchAxis& inner = axes.front();
      if (axis.a == inner.a * inner.extent && axis.b == inner.b * inner.extent) {
        inner.extent = checked_mul(inner.extent, axis.extent);
        continue;
      }
    }
    axes.insert(axes.begin(), axis);
  }
  return axes;
}

void set_batch(const std::vector<BatchAxis>& axes, ContractProblem& p) {
  if (axes.size() > 3) {
    p.reason = "the batch has more than three dims that differ";
    return;
  }
  const size_t skip = 3 - axes.size();
  for (size_t i = 0; i < axes.size(); ++i) {
    p.batch = checked_mul(p.batch, axes[i].extent);
    p.a_strides[skip + i] = axes[i].a;
    p.b_strides[skip + i] = axes[i].b;
    if (skip + i > 0) p.extents[skip + i - 1] = axes[i].extent;
  }
}

ContractProblem matrix_problem(const StepShape& shape) {
  ContractProblem p;
  p.type = shape.inputs[0].dtype;
  const Attributes& attrs = shape.step->attrs;
  const bool gemm = shape.step->op == "Gemm";
  Dims a = shape.inputs[0].dims, b = shape.inputs[1].dims;
  bool turn_a = attrs.get_int(gemm ? "transA" : "trans_a", 0) != 0;
  bool turn_b = attrs.get_int(gemm ? "transB" : "trans_b", 0) != 0;
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a.insert(0, 1);
  if (column) b.push_back(1);
  turn_a = turn_a && !row;
  turn_b = turn_b && !column;
  const int64_t a0 = a[a.rank() - 2], a1 = a.back(), b0 = b[b.rank() - 2], b1 = b.back();
  p.m = turn_a ? a1 : a0;
  p.k = turn_a ? a0 : a1;
  p.n = turn_b ? b0 : b1;
  p.n_known = !column && is_known(shape, shape.step->inputs[1], turn_b ? 2 : 1);
  p.k_known = is_known(shape, shape.step->inputs[0], turn_a ? 2 : 1) ||
              (!column && is_known(shape, shape.step->inputs[1], turn_b ? 1 : 2));
  if (column) p.n_known = true;
  p.weights = is_constant(shape, 1);
  p.a_columns = turn_a;
  p.lda = a1;
  p.b_columns = !turn_b && !p.weights;
  p.ldb = p.weights ? round_up(p.k, p.chunk()) : b1;
  std::vector<BatchAxis> axes =
      batch_axes(a, b, checked_mul(a0, a1), p.weights ? checked_mul(p.n, p.ldb) : checked_mul(b0, b1));
  // One matrix times many rows is one product.
  if (axes.size() == 1 && axes[0].b == 0 && axes[0].a == a0 * a1 && !turn_a) {
    p.m = checked_mul(p.m, axes[0].extent);
    axes.clear();
  }
  p.batched = !axes.empty();
  set_batch(axes, p);
  Dims result = shape.outputs[0].dims;
  if (column) result.push_back(1);
  if (result.rank() == 0) result.push_back(1);
  add_epilogue(shape, result, p);
  return p;
}

// ---- images -----------------------------------------------------------------------------------------

void set_window(const ConvGeometry& g, ContractProblem& p) {
  const auto last = static_cast<size_t>(g.spatial());
  for (size_t i = 0; i < last; ++i) {
    const size_t to = 2 - last + i;
    p.kernel[to] = g.kernel[i];
    p.strides[to] = g.strides[i];
    p.dilations[to] = g.dilations[i];
    p.pads[to] = g.pads_begin[i];
    p.pads_end[to] = g.pads_end[i];
  }
  p.height = last == 2 ? g.in[0] : 1;
  p.out_height = last == 2 ? g.out[0] : 1;
  p.width = g.in[last - 1];
  p.out_width = g.out[last - 1];
}

std::string image_obstacle(const StepShape& shape) {
  const int rank = shape.inputs[0].dims.rank();
  if (!is_channels_last(shape.step->attrs)) return "its channels come first";
  return rank == 3 || rank == 4 ? "" : "it has " + std::to_string(rank - 2) + " spatial dims";
}

ContractProblem conv_problem(const StepShape& shape, bool transposed) {
  ContractProblem p;
  p.type = shape.inputs[0].dtype;
  p.reason = image_obstacle(shape);
  if (p.reason.empty() && !is_constant(shape, 1)) p.reason = "its weights are no constant";
  if (!p.reason.empty()) return p;
  const std::vector<int64_t> x = to_vector(shape.inputs[0].dims), w = to_vector(shape.inputs[1].dims);
  const std::vector<int64_t> kernel(w.begin() + 2, w.end());
  const ConvGeometry g = transposed ? conv_transpose_geometry(shape.step->attrs, spatial_dims(true, x), kernel)
                                    : conv_geometry(shape.step->attrs, spatial_dims(true, x), kernel);
  set_window(g, p);
  p.transposed = transposed;
  p.weights = p.n_known = p.k_known = true;
  p.images = x[0];
  p.all_channels = x.back();
  p.groups = g.group;
  p.channels = p.all_channels / p.groups;
  const int64_t results = shape.outputs[0].dims.back();
  if (!transposed && p.groups > 1 && p.channels == 1 && results == p.groups) {
    p.kind = Kind::DEPTHWISE;
    p.channels = p.all_channels;
    p.groups = 1;
    add_epilogue(shape, shape.outputs[0].dims, p);
    return p;
  }
  p.kind = Kind::IMAGE;
  p.n = results / p.groups;
  p.m = checked_mul(p.images, checked_mul(p.out_height, p.out_width));
  p.batch = p.groups;
  const int64_t places = checked_mul(p.kernel[0], p.kernel[1]);
  p.k = checked_mul(places, round_up(p.channels, p.chunk()));
  p.ldb = p.k;
  const bool strided = p.strides[0] != 1 || p.strides[1] != 1 || p.out_height != p.height || p.out_width != p.width;
  if (places == 1 && !strided && p.groups == 1 && p.pads[0] == 0 && p.pads[1] == 0) {  // pixels are rows
    p.kind = Kind::PRODUCT;
    p.k = p.channels;
    p.lda = p.channels;
  }
  add_epilogue(shape, shape.outputs[0].dims, p);
  return p;
}

ContractProblem pool_problem(const StepShape& shape, Kind kind) {
  ContractProblem p;
  p.type = shape.inputs[0].dtype;
  p.kind = kind;
  p.reason = image_obstacle(shape);
  if (shape.outputs.size() > 1 && shape.outputs[1].dtype != DType::UNDEFINED) p.reason = "it gives indices too";
  if (!p.reason.empty()) return p;
  const std::vector<int64_t> x = to_vector(shape.inputs[0].dims);
  set_window(pool_geometry(shape.step->attrs, spatial_dims(true, x)), p);
  p.images = x[0];
  p.channels = p.all_channels = x.back();
  p.counts_pads = shape.step->attrs.get_int("count_include_pad", 0) != 0;
  add_epilogue(shape, shape.outputs[0].dims, p);
  return p;
}

std::string type_obstacle(const StepShape& shape) {
  const DType type = shape.inputs[0].dtype;
  if (type != DType::FLOAT32 && type != DType::FLOAT16 && type != DType::BFLOAT16) {
    return "it is not generated for " + std::string(dtype_name(type));
  }
  for (const TensorDesc& output : shape.outputs) {
    if (output.dtype != DType::UNDEFINED && output.dims.count() == 0) return "its result is empty";
  }
  for (const TensorDesc& input : shape.inputs) {
    if (input.dtype != DType::UNDEFINED && input.dims.count() == 0) return "an operand is empty";
  }
  return "";
}

// Places within an image and its rows are counted in 32 bits.
std::string size_obstacle(const ContractProblem& p) {
  const int64_t most = INT_MAX / 2;
  const int64_t pixels = checked_mul(checked_mul(p.images, p.height), p.width);
  const bool large = checked_mul(pixels, p.all_channels) > most || p.m > most || p.n > most || p.k > most;
  return large ? "it is too large" : "";
}

}  // namespace

bool is_contraction(const Step& step) {
  const std::string op = base_op(step.op);
  for (const char* known : {"MatMul", "Gemm", "Conv", "ConvTranspose", "MaxPool", "AveragePool"}) {
    if (op == known) return true;
  }
  return false;
}

ContractProblem contract_problem(const StepShape& shape) {
  const bool region = shape.step->op == kRegionOp;
  if (region && shape.body.size() > 1 && is_contraction(*shape.body.back().step)) return product_of_region(shape);
  const std::string op = base_op(shape.step->op);
  ContractProblem p;
  p.reason = op + " is no convolution, product or pool";
  if (!is_contraction(*shape.step)) return p;
  const bool product = op == "MatMul" || op == "Gemm";
  const bool conv = op == "Conv" || op == "ConvTranspose";
  p.reason = type_obstacle(shape);
  if (p.reason.empty() && (product || conv) && shape.inputs[1].dtype != shape.inputs[0].dtype) {
    p.reason = "its operands have different types";
  }
  if (!p.reason.empty()) return p;
  try {
    p = product ? matrix_problem(shape)
        : conv  ? conv_problem(shape, op == "ConvTranspose")
                : pool_problem(shape, op == "MaxPool" ? Kind::MAXIMUM : Kind::AVERAGE);
    if (p.reason.empty()) p.reason = size_obstacle(p);
  } catch (const Error& e) {  // sizes that overflow
    p.reason = e.message();
  }
  return p;
}

std::string ContractProblem::built_in() const {
  std::string text = fmt::format("{} {} {}{}{}", static_cast<int>(kind), dtype_name(type), a_columns ? "c" : "r",
                                 b_columns ? "c" : "r", weights ? "w" : "");
  text += fmt::format(" n{} k{}", n_known ? std::to_string(n) : "?", k_known ? std::to_string(k) : "?");
  text += fmt::format(" g{} {}", groups, batched ? "batched" : "");
  text += fmt::format(" c{}/{}", channels, all_channels);
  for (size_t i = 0; i < 2; ++i) {
    text += fmt::format(" {}s{}d{}p{}e{}", kernel[i], strides[i], dilations[i], pads[i], pads_end[i]);
  }
  text += fmt::format("{}{}", transposed ? " transposed" : "", counts_pads ? " counts pads" : "");
  for (const EpilogueTerm& t : epilogue) text += fmt::format(" {}({},{},{})", t.name, t.alpha, t.beta, t.operand);
  for (const EpilogueTerm& t : prologue)
    text += fmt::format(" before {}({},{},{})", t.name, t.alpha, t.beta, t.operand);
  for (const auto* all : {&operands, &prologue_operands}) {
    for (const EpilogueSource& s : *all) {
      text += fmt::format(" ${}:{}{}{}", s.input, dtype_name(s.dtype), s.rows, s.columns ? "c" : "");
    }
  }
  return text;
}

}  // namespace deepjit::nvrtc_gpu
