#include "passes/attention/fuse_attention.h"

#include "base/types.h"
#include "passes/edit.h"
#include "passes/fusion/product.h"
#include "passes/layout/permutation.h"

namespace deepjit {

namespace {

const Permutation kHeadsOut = {0, 2, 1, 3};

// Behind Casts between floats that only serve the next node.
Value* behind_casts(Value* v) {
  while (v != nullptr) {
    const Node* cast = producer_of(v, "Cast");
    if (cast == nullptr || !ranked(cast->input(0)) || !is_float(v->type.dtype)) return v;
    const DType from = cast->input(0)->type.dtype;
    if (!is_float(from) || (v->type.dtype != DType::FLOAT32 && from != DType::FLOAT32)) return v;
    v = cast->input(0);
  }
  return v;
}

struct Scaled {
  Value* value = nullptr;
  double scale = 1;
};

// value = scale * factor.
Scaled scaled(Value* value) {
  Value* v = behind_casts(value);
  const Product product = product_of(v);
  if (product.factors.size() != 1 || !(product.coefficient > 0)) return {};
  return {behind_casts(const_cast<Value*>(product.factors[0])), product.coefficient};
}

struct Match {
  Value *q = nullptr, *k = nullptr, *v = nullptr, *mask = nullptr;  // K is [.., keys, head]
  double scale = 1;
};

// K where `turned` is its Transpose.
Value* turn_back(Node* at, Value* turned) {
  const Node* transpose = producer_of(turned, "Transpose");
  if (transpose == nullptr || !ranked(transpose->input(0))) return nullptr;
  Permutation p = perm_of(*transpose);
  if (p.size() != 4) return nullptr;
  std::swap(p[2], p[3]);
  if (is_identity(p)) return transpose->input(0);
  Attributes attrs;
  attrs.set("perm", std::vector<int64_t>(p.begin(), p.end()));
  return emit(at, "Transpose", {transpose->input(0)}, std::move(attrs), transpose);
}

bool softmax_over_keys(const Node* node) {
  if (node == nullptr || !ranked(node->input(0))) return false;
  const int rank = node->input(0)->type.shape.rank();
  const int64_t axis = node->attrs.get_int("axis", -1);
  return rank == 4 && (axis == -1 || axis == rank - 1);
}

// The scores and the mask that is added to them. A mask is the operand that is no product.
void split_mask(Value* sum, Match& m, Scaled& scores) {
  Value* v = behind_casts(sum);
  const Node* add = producer_of(v, "Add");
  if (add == nullptr) {
    scores = scaled(v);
    return;
  }
  for (size_t i = 0; i < 2; ++i) {
    const Scaled own = scaled(add->input(i));
    if (own.value == nullptr || producer_of(own.value, "MatMul") == nullptr) continue;
    scores = own;
    m.mask = add->input(1 - i);
    return;
  }
}

// The mask lies over [batch, heads, queries, keys] and has all keys.
bool mask_fits(const Value* mask, const Shape& scores) {
  if (mask == nullptr) return true;
  if (!ranked(mask) || !is_float(mask->type.dtype) || mask->type.dtype == DType::FLOAT64) return false;
  const Shape& shape = mask->type.shape;
  if (shape.rank() > 4 || shape.rank() < 1) return false;
  for (int i = 1; i <= shape.rank(); ++i) {
    const Dim& own = shape[shape.rank() - i];
    if (!(own == scores[4 - i]) && (i == 1 || !(own == 1))) return false;
  }
  return true;
}

std::optional<Match> match(Node* node) {
  if (node->op != "MatMul" || !is_16_bit(node->output()) || node->output()->type.shape.rank() != 4) return std::nullopt;
  const Node* softmax = producer_of(behind_casts(node->input(0)), "Softmax");
  if (!softmax_over_keys(softmax) || only_user(softmax->output()) == nullptr) return std::nullopt;
  Match m;
  Scaled scores;
  split_mask(softmax->input(0), m, scores);
  const Node* product = scores.value == nullptr ? nullptr : producer_of(scores.value, "MatMul");
  if (product == nullptr || only_user(scores.value) == nullptr || !is_16_bit(scores.value)) return std::nullopt;
  if (scores.value->type.shape.rank() != 4 || !mask_fits(m.mask, scores.value->type.shape)) return std::nullopt;
  const Scaled q = scaled(product->input(0)), k = scaled(product->input(1));
  if (q.value == nullptr || k.value == nullptr || !is_16_bit(q.value) || !is_16_bit(k.value)) return std::nullopt;
  m.q = q.value;
  m.v = node->input(1);
  if (q.value->type.shape.rank() != 4 || !ranked(m.v) || m.v->type.shape.rank() != 4) return std::nullopt;
  const Dim &heads = m.q->type.shape[1], &head = m.q->type.shape[3];
  const bool known = heads.is_const() && head.is_const() && m.v->type.shape[1] == heads && m.v->type.shape[3] == head &&
                     m.v->type.shape[0] == m.q->type.shape[0];
  if (!known) return std::nullopt;
  m.k = turn_back(node, k.value);
  m.scale = scores.scale * q.scale * k.scale;
  return m.k == nullptr ? std::nullopt : std::optional<Match>(m);
}

// The rows [batch, length, heads * head] that `heads` [batch, heads, length, head] is a Transpose of.
Value* rows_of(Node* at, Value* heads) {
  const Node* transpose = producer_of(heads, "Transpose");
  if (transpose == nullptr || perm_of(*transpose) != kHeadsOut || !ranked(transpose->input(0))) return nullptr;
  const Shape& s = transpose->input(0)->type.shape;
  return emit_reshape(at, transpose->input(0), {s[0], s[1], s[2] * s[3]}, transpose);
}

Value* fuse(Node* node, const Match& m) {
  Attributes attrs;
  attrs.set("scale", static_cast<float>(m.scale));
  const Shape heads = m.q->type.shape;
  Value* rows[3] = {rows_of(node, m.q), rows_of(node, m.k), rows_of(node, m.v)};
  if (rows[0] == nullptr || rows[1] == nullptr || rows[2] == nullptr) {
    return emit(node, "Attention", {m.q, m.k, m.v, m.mask}, std::move(attrs), node);
  }
  attrs.set("q_num_heads", heads[1].value());
  attrs.set("kv_num_heads", heads[1].value());
  Value* y = emit(node, "Attention", {rows[0], rows[1], rows[2], m.mask}, std::move(attrs), node);
  Value* split = emit_reshape(node, y, {heads[0], heads[2], heads[1], heads[3]}, node);
  if (split == nullptr) return nullptr;
  Attributes turn;
  turn.set("perm", std::vector<int64_t>{0, 2, 1, 3});
  return emit(node, "Transpose", {split}, std::move(turn), node);
}

}  // namespace

bool fuse_attention(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) {
    if (!graph.contains(node) || node->outputs.size() != 1 || node->output() == nullptr) continue;
    const auto found = match(node);
    if (!found) continue;
    Value* result = fuse(node, *found);
    changed = (result != nullptr && replace_node(node, result)) || changed;
  }
  return changed;
}

}  // namespace deepjit
