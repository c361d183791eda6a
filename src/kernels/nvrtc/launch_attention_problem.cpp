#include <fmt/format.h>

#include <cmath>

#include "kernels/nvrtc/attention_problem.h"
#include "kernels/nvrtc/contract_problem.h"
#include "ops/nn/attention_rows.h"

namespace deepjit::nvrtc_gpu {

namespace {

// Rank 3: heads side by side in rows. Rank 4: [batch, head, row].
HeadRows rows_of(const Dims& dims, int64_t head) {
  if (dims.rank() == 3) return {0, dims[1] * dims[2], head, dims[2]};
  return {0, dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3]};
}

std::string obstacle(const StepShape& shape) {
  const Attributes& attrs = shape.step->attrs;
  const DType type = shape.inputs[0].dtype;
  if (type != DType::FLOAT16 && type != DType::BFLOAT16)
    return "it is not generated for " + std::string(dtype_name(type));
  if (shape.inputs[1].dtype != type || shape.inputs[2].dtype != type) return "Q, K and V have different types";
  for (size_t i = 4; i < shape.inputs.size(); ++i) {
    if (has_operand(shape, i)) return "its keys are cached or padded";
  }
  for (size_t i = 1; i < shape.outputs.size(); ++i) {
    if (shape.outputs[i].dtype != DType::UNDEFINED) return "more than its first output is read";
  }
  if (attrs.get_float("softcap", 0) != 0) return "its scores are capped";
  if (shape.outputs[0].count() == 0 || shape.inputs[1].count() == 0) return "an operand is empty";
  return "";
}

// Strides of batch, head, query and key; 0 where the mask is the same.
bool mask_strides(const Dims& mask, const AttentionProblem& p, int64_t (&strides)[4]) {
  const int64_t sizes[4] = {p.batch, p.heads, p.queries, p.keys};
  const Dims own = mask.strides();
  for (int i = 0; i < 4; ++i) {
    const int at = i - (4 - mask.rank());
    strides[i] = 0;
    if (at < 0 || mask[at] == 1) continue;
    if (mask[at] != sizes[i]) return false;
    strides[i] = own[at];
  }
  return mask.rank() <= 4 && (mask.rank() == 0 || mask.back() == p.keys);
}

void read_attention(const StepShape& shape, AttentionProblem& p, HeadRows (&rows)[4]) {
  const Attributes& attrs = shape.step->attrs;
  const Dims &q = shape.inputs[0].dims, &k = shape.inputs[1].dims, &v = shape.inputs[2].dims,
             &y = shape.outputs[0].dims;
  const bool packed = q.rank() == 3;
  p.batch = q[0];
  p.heads = packed ? attrs.require_int("q_num_heads") : q[1];
  p.kv_heads = packed ? attrs.require_int("kv_num_heads") : k[1];
  p.queries = packed ? q[1] : q[2];
  p.keys = packed ? k[1] : k[2];
  p.head = packed ? y[2] / p.heads : q[3];
  const int64_t v_head = packed ? p.head : v[3];
  if (p.head != v_head) p.reason = fmt::format("heads have {} and {} elements", p.head, v_head);
  if (packed && (q[2] != y[2] || k[2] != p.kv_heads * p.head || v[2] != p.kv_heads * p.head)) {
    p.reason = "heads of K and V have different sizes";
  }
  for (size_t i = 0; i < 3; ++i) rows[i] = rows_of(shape.inputs[i].dims, p.head);
  rows[3] = rows_of(y, p.head);
}

void read_in_place(const StepShape& shape, AttentionProblem& p, HeadRows (&rows)[4]) {
  const AttentionRows own(shape.step->attrs);
  const Dims &q = shape.inputs[0].dims, &k = shape.inputs[1].dims;
  p.batch = own.batch(0, q);
  p.heads = own.heads;
  p.kv_heads = own.kv_heads;
  p.head = own.head;
  p.queries = own.tokens(0, q);
  p.keys = own.tokens(1, k);
  for (int i = 0; i < 3; ++i) rows[i] = own.of(i, shape.inputs[static_cast<size_t>(i)].dims);
  rows[3] = own.of(3, shape.outputs[0].dims);
}

}  // namespace

bool is_attention(const Step& step) { return step.op == "Attention" || step.op == "deepjit.Attention"; }

AttentionProblem attention_problem(const StepShape& shape) {
  AttentionProblem p;
  p.reason = obstacle(shape);
  if (!p.reason.empty()) return p;
  const Attributes& attrs = shape.step->attrs;
  p.type = shape.inputs[0].dtype;
  HeadRows rows[4];
  shape.step->op == "Attention" ? read_attention(shape, p, rows) : read_in_place(shape, p, rows);
  if (!p.reason.empty()) return p;
  p.causal = attrs.get_int("is_causal", 0) != 0;
  p.scale = attrs.has("scale") ? static_cast<double>(attrs.get_float("scale", 1))
                               : 1 / std::sqrt(static_cast<double>(p.head));
  if (p.head % 16 != 0 || p.head > 256) {
    p.reason = fmt::format("heads have {} elements", p.head);
    return p;
  }
  int64_t mask[4] = {0, 0, 0, 0};
  if (has_operand(shape, 3)) {
    p.mask = shape.inputs[3].dtype;
    const bool known =
        p.mask == DType::BOOL || (is_float(p.mask) && dtype_size(p.mask) >= 2 && p.mask != DType::FLOAT64);
    if (!known || !mask_strides(shape.inputs[3].dims, p, mask)) {
      p.reason = "a mask " + shape.inputs[3].dims.to_string() + " of " + std::string(dtype_name(p.mask));
      return p;
    }
    p.mask_by_query = mask[2] != 0;
  }
  p.numbers = {p.queries, p.keys};
  for (const HeadRows& r : rows) p.numbers.insert(p.numbers.end(), {r.batch, r.head, r.row});
  p.numbers.insert(p.numbers.end(), std::begin(mask), std::end(mask));
  for (int i = 0; i < 3; ++i) p.numbers.push_back(rows[i].start);
  return p;
}

std::string AttentionProblem::built_in() const {
  const std::string masked =
      mask == DType::UNDEFINED ? "" : std::string(dtype_name(mask)) + (mask_by_query ? "" : " by key");
  return fmt::format("attention {} {} {}/{} {} {}{}", dtype_name(type), head, heads, kv_heads, scale, masked,
                     causal ? " causal" : "");
}

}  // namespace deepjit::nvrtc_gpu
