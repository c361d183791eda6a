#include "tune/part_reference.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "program/base_op.h"

namespace deepjit {

namespace {

constexpr int64_t kSmall = 1 << 18;  // elements of a result that is checked whole
constexpr int64_t kRows = 64;        // of a product of two matrices

// Does input i have a place of its own for each along the first dim of the result?
bool follows(const StepShape& shape, size_t i) {
  const TensorDesc& input = shape.inputs[i];
  const Dims& result = shape.outputs[0].dims;
  const std::string op = base_op(shape.step->op);
  const bool mask = op == "Attention" && i == 3;  // over [batch, heads, queries, keys], whatever the rank of the result
  if (input.dtype == DType::UNDEFINED || input.dims.rank() != (mask ? 4 : result.rank())) return false;
  if (input.dims[0] != result[0]) return false;
  const bool weights = i == 1 && op != "Attention" && (op != "MatMul" || result.rank() == 2);
  return !weights;
}

}  // namespace

int64_t places_to_check(const StepShape& shape) {
  static const std::set<std::string> ops = {"Conv",    "ConvTranspose", "MatMul",   "Gemm",
                                            "MaxPool", "AveragePool",   "Attention"};
  const Step& step = *shape.step;
  const Dims& result = shape.outputs[0].dims;
  if (ops.count(base_op(step.op)) == 0 || result.rank() < 2 || result.count() <= kSmall || !follows(shape, 0)) return 0;
  for (int64_t first : step.attrs.get_ints("tokens_first", {})) {
    if (first != 0) return 0;  // the last tokens need all keys
  }
  if (step.attrs.get_int("trans_a", 0) != 0 || step.attrs.get_int("transA", 0) != 0) return 0;
  for (size_t i = 1; i < shape.outputs.size(); ++i) {
    if (shape.outputs[i].dtype != DType::UNDEFINED) return 0;
  }
  const int64_t count = result.rank() == 2 ? std::min(kRows, result[0]) : 1;
  return count < result[0] ? count : 0;
}

Tensor last_places(const Tensor& tensor, int64_t count) {
  Dims dims = tensor.dims();
  const int64_t bytes = tensor.bytes() / dims[0] * count;
  dims[0] = count;
  Tensor part(tensor.dtype(), dims);
  std::memcpy(part.view().data, tensor.as<char>() + (tensor.bytes() - bytes), static_cast<size_t>(bytes));
  return part;
}

std::vector<Tensor> reference_of_places(const StepShape& shape, const std::vector<Tensor>& inputs, int64_t count) {
  StepShape part = shape;
  std::vector<Tensor> own = inputs;
  std::vector<void*> from, to;
  for (size_t i = 0; i < own.size(); ++i) {
    if (follows(shape, i)) {
      own[i] = last_places(inputs[i], count);
      part.inputs[i].dims[0] = count;
    }
    from.push_back(own[i].defined() ? own[i].view().data : nullptr);
  }
  std::vector<Tensor> results(shape.outputs.size());
  part.outputs[0].dims[0] = count;
  results[0] = Tensor(part.outputs[0].dtype, part.outputs[0].dims);
  to.assign(shape.outputs.size(), nullptr);
  to[0] = results[0].view().data;
  reference_launcher().make(part, Tactic{})->run({from.data(), to.data(), nullptr});
  return results;
}

}  // namespace deepjit
