#include "passes/attention/attention_rows.h"

#include <algorithm>
#include <cstring>

#include "ops/nn/attention_rows.h"
#include "passes/edit.h"
#include "passes/layout/permutation.h"
#include "passes/layout/strided_view.h"

namespace deepjit {

namespace {

// One operand: rows [batch, tokens, width] of `root`, or tokens first.
struct Rows {
  Value* root = nullptr;
  Dim batch, tokens, width;
  int64_t start = 0;
  bool tokens_first = false;
};

// An attention of either name, by its parts.
struct Parts {
  int64_t heads = 0, kv_heads = 0, head = 0;
  Value* operands[3] = {};
  std::vector<int64_t> starts = {0, 0, 0}, tokens_first = {0, 0, 0, 0};
};

// Nothing cached, nothing padded, one result, and sizes of heads that are known and equal.
std::optional<Parts> parts_of(const Node& node) {
  if (node.op != "Attention" && node.op != "deepjit.Attention") return std::nullopt;
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != nullptr && Graph::use_count(node.outputs[i]) > 0) return std::nullopt;
  }
  for (size_t i = 4; i < node.inputs.size(); ++i) {
    if (node.input(i) != nullptr) return std::nullopt;
  }
  if (node.attrs.get_float("softcap", 0) != 0) return std::nullopt;
  Parts p;
  for (size_t i = 0; i < 3; ++i) {
    p.operands[i] = node.input(i);
    if (!is_16_bit(p.operands[i]) || p.operands[i]->type.dtype != p.operands[0]->type.dtype) return std::nullopt;
  }
  const Shape &q = p.operands[0]->type.shape, &k = p.operands[1]->type.shape, &v = p.operands[2]->type.shape;
  if (node.op == "deepjit.Attention") {
    const AttentionRows rows(node.attrs);
    p.heads = rows.heads, p.kv_heads = rows.kv_heads, p.head = rows.head;
    p.starts = rows.starts, p.tokens_first = rows.tokens_first;
    return p;
  }
  if (q.rank() == 4) {
    if (!q[1].is_const() || !k[1].is_const() || !q[3].is_const() || !(v[3] == q[3])) return std::nullopt;
    p.heads = q[1].value(), p.kv_heads = k[1].value(), p.head = q[3].value();
    return p;
  }
  p.heads = node.attrs.require_int("q_num_heads");
  p.kv_heads = node.attrs.require_int("kv_num_heads");
  if (!q[2].is_const() || !k[2].is_const() || !(k[2] == v[2])) return std::nullopt;
  p.head = q[2].value() / p.heads;
  return k[2].value() == p.kv_heads * p.head ? std::optional<Parts>(p) : std::nullopt;
}

Attributes attributes_of(const Node& node, const Parts& p) {
  Attributes attrs;
  if (node.attrs.has("scale")) attrs.set("scale", node.attrs.get_float("scale", 1));
  if (node.attrs.has("is_causal")) attrs.set("is_causal", node.attrs.get_int("is_causal", 0));
  attrs.set("q_num_heads", p.heads);
  attrs.set("kv_num_heads", p.kv_heads);
  attrs.set("head_size", p.head);
  attrs.set("starts", p.starts);
  attrs.set("tokens_first", p.tokens_first);
  return attrs;
}

// `operand`, [batch, heads, tokens, head] or [batch, tokens, heads * head], as parts of the rows of `root`.
std::optional<Rows> rows_over(Value* operand, Value* root, int64_t heads, int64_t head) {
  const auto view = strided_view(operand, root);
  if (!view || !view->offset.is_const()) return std::nullopt;
  const bool apart = view->dims.size() == 4;
  const StridedView::Axis &batch = view->dims[0], &tokens = view->dims[apart ? 2 : 1];
  const StridedView::Axis& last = view->dims.back();
  const Shape& shape = operand->type.shape;
  if (!(last.stride == 1)) return std::nullopt;
  if (apart && heads > 1 && !(view->dims[1].stride == head)) return std::nullopt;
  Rows rows{root, shape[0], shape[apart ? 2 : 1], 0, view->offset.value(), false};
  const auto spans = [](const StridedView::Axis& outer, const Dim& inner_size, const StridedView::Axis& inner) {
    return inner.stride.is_const() && inner.stride.value() > 0 &&
           (outer.size == 1 || outer.stride == inner_size * inner.stride);
  };
  if (spans(batch, rows.tokens, tokens)) {
    rows.width = tokens.stride;
  } else if (spans(tokens, rows.batch, batch)) {
    rows.width = batch.stride;
    rows.tokens_first = true;
  } else {
    return std::nullopt;
  }
  const bool holds_all = root->type.shape.count() == rows.batch * rows.tokens * rows.width;
  return holds_all && rows.start + heads * head <= rows.width.value() ? std::optional<Rows>(rows) : std::nullopt;
}

// Over the value furthest up that has such rows.
Rows furthest_rows(Value* operand, int64_t heads, int64_t head) {
  Rows best;
  for (Value* root = operand; root != nullptr; root = viewed(root)) {
    if (const auto rows = rows_over(operand, root, heads, head)) best = *rows;
  }
  return best;
}

Value* as_rank_3(Node* at, const Rows& rows) {
  const std::vector<Dim> dims = rows.tokens_first ? std::vector<Dim>{rows.tokens, rows.batch, rows.width}
                                                  : std::vector<Dim>{rows.batch, rows.tokens, rows.width};
  if (rows.root->type.shape == Shape(dims)) return rows.root;
  return emit_reshape(at, rows.root, dims, at);
}

// The result of an attention of rank 3 in place of `node`'s, which may have heads apart and be turned at once.
bool replace_with_rows(Node* node, Parts& p, const std::vector<Value*>& inputs) {
  const Shape y = node->output()->type.shape;
  Node* turn = only_user(node->output());
  Permutation perm;
  if (turn != nullptr && turn->op == "Transpose") perm = perm_of(*turn);
  const bool apart = y.rank() == 4;
  const bool turned = perm == (apart ? Permutation{2, 0, 1, 3} : Permutation{1, 0, 2});
  const bool rows_wanted = turned || (apart && perm == Permutation{0, 2, 1, 3});
  p.tokens_first[3] = turned ? 1 : 0;
  std::vector<Value*> all = inputs;
  all.push_back(node->inputs.size() > 3 ? node->input(3) : nullptr);
  Value* result = emit(node, "deepjit.Attention", all, attributes_of(*node, p), node);
  const Dim &batch = y[0], &tokens = y[apart ? 2 : 1];
  if (apart) {
    const std::vector<Dim> split =
        turned ? std::vector<Dim>{tokens, batch, p.heads, p.head} : std::vector<Dim>{batch, tokens, p.heads, p.head};
    result = emit_reshape(node, result, split, node);
    if (result == nullptr) return false;
  }
  if (rows_wanted && replaceable(turn->output(), result)) {
    replace_value(turn->output(), result);
    turn->graph->erase(turn);
    node->graph->erase(node);
    return true;
  }
  if (turned) return false;
  if (apart) {
    Attributes back;
    back.set("perm", std::vector<int64_t>{0, 2, 1, 3});
    result = emit(node, "Transpose", {result}, std::move(back), node);
  }
  return replace_node(node, result);
}

// x W + b with constant W and b, of a value that only an attention reads.
struct Projection {
  Value *x = nullptr, *weights = nullptr, *bias = nullptr;
  const Node* product = nullptr;
};

std::optional<Projection> projection_of(Value* rows) {
  Projection p;
  const Node* product = producer_of(rows, "MatMul");
  if (const Node* add = producer_of(rows, "Add")) {
    const size_t side = producer_of(add->input(0), "MatMul") != nullptr ? 0 : 1;
    product = only_user(add->input(side)) == nullptr ? nullptr : producer_of(add->input(side), "MatMul");
    p.bias = add->input(1 - side);
  }
  if (product == nullptr) return std::nullopt;
  p.product = product;
  p.x = product->input(0);
  p.weights = product->input(1);
  if (!p.weights->is_constant() || p.weights->type.shape.rank() != 2 || !is_16_bit(p.x)) return std::nullopt;
  if (p.bias == nullptr) return p;
  const Shape& bias = p.bias->type.shape;
  const bool vector = p.bias->is_constant() && bias.rank() == 1 && bias[0] == p.weights->type.shape[1];
  return vector ? std::optional<Projection>(p) : std::nullopt;
}

Tensor zeros(DType type, const Dims& dims) {
  Tensor out(type, dims);
  std::memset(out.as<char>(), 0, static_cast<size_t>(out.bytes()));
  return out;
}

void add_origins(Node& node, const Node& other) {
  for (const std::string& origin : other.origins) {
    if (std::find(node.origins.begin(), node.origins.end(), origin) == node.origins.end()) {
      node.origins.push_back(origin);
    }
  }
}

// Constants [K, N_i], or [N_i], side by side.
Tensor beside(const std::vector<Tensor>& parts) {
  Dims dims = parts[0].dims();
  const int64_t rows = dims.rank() == 2 ? dims[0] : 1;
  int64_t width = 0;
  for (const Tensor& part : parts) width += part.dims().back();
  dims[dims.rank() - 1] = width;
  Tensor out(parts[0].dtype(), dims);
  const int64_t size = out.bytes() / std::max<int64_t>(1, rows * width);
  int64_t at = 0;
  for (const Tensor& part : parts) {
    const int64_t own = part.dims().back();
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(out.as<char>() + (r * width + at) * size, part.as<char>() + r * own * size,
                  static_cast<size_t>(own * size));
    }
    at += own;
  }
  return out;
}

// Where Q, K and V are; nothing unless all three are in rows.
std::optional<std::vector<Rows>> rows_of_operands(const Node& node, const Parts& p) {
  std::vector<Rows> out;
  for (size_t i = 0; i < 3; ++i) {
    const Shape& shape = p.operands[i]->type.shape;
    const bool first = p.tokens_first[i] != 0;
    out.push_back(node.op == "Attention"
                      ? furthest_rows(p.operands[i], i == 0 ? p.heads : p.kv_heads, p.head)
                      : Rows{p.operands[i], shape[first ? 1 : 0], shape[first ? 0 : 1], shape[2], p.starts[i], first});
    if (out.back().root == nullptr) return std::nullopt;
  }
  return out;
}

// Nobody else reads what lies between the root of the rows and the attention.
bool read_by_it_alone(const Value* operand, const Value* root) {
  while (only_user(operand) != nullptr) {
    if (operand == root) return true;
    operand = viewed(operand);
  }
  return false;
}

// The three products, when they are of one matrix and nobody else reads them.
std::optional<std::vector<Projection>> projections_of(const Parts& p, const std::vector<Rows>& rows) {
  std::vector<Projection> out;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t width = (i == 0 ? p.heads : p.kv_heads) * p.head;
    const Rows& own = rows[i];
    if (!read_by_it_alone(p.operands[i], own.root) || own.root->type.shape.rank() != 3 || !(own.width == width)) {
      return std::nullopt;
    }
    const auto one = projection_of(own.root);
    if (!one || own.tokens_first != rows[0].tokens_first || (i > 0 && one->x != out[0].x)) return std::nullopt;
    out.push_back(*one);
  }
  return out;
}

bool merge(Node* node, Parts p) {
  const auto operands = rows_of_operands(*node, p);
  const auto three = operands ? projections_of(p, *operands) : std::nullopt;
  if (!three) return false;
  std::vector<Tensor> weights, biases;
  bool any_bias = false;
  for (size_t i = 0; i < 3; ++i) {
    const Projection& one = (*three)[i];
    p.starts[i] = i == 0 ? 0 : p.starts[i - 1] + weights[i - 1].dims()[1];
    p.tokens_first[i] = (*operands)[i].tokens_first ? 1 : 0;
    weights.push_back(one.weights->constant);
    any_bias = any_bias || one.bias != nullptr;
    biases.push_back(one.bias != nullptr ? one.bias->constant : zeros(weights[i].dtype(), {weights[i].dims()[1]}));
  }
  const Value* first = (*operands)[0].root;
  Value* rows = emit(node, "MatMul", {(*three)[0].x, emit_constant(node, beside(weights))}, {}, (*three)[0].product);
  for (size_t i = 1; i < 3; ++i) add_origins(*rows->producer, *(*three)[i].product);
  if (any_bias) {
    rows = emit(node, "Add", {rows, emit_constant(node, beside(biases))}, {}, first->producer);
    for (size_t i = 1; i < 3; ++i) add_origins(*rows->producer, *(*operands)[i].root->producer);
  }
  return replace_with_rows(node, p, {rows, rows, rows});
}

bool in_place(Node* node, Parts p) {
  const auto operands = rows_of_operands(*node, p);
  if (!operands) return false;
  std::vector<Value*> inputs;
  bool gains = false;
  for (size_t i = 0; i < 3; ++i) {
    const Rows& rows = (*operands)[i];
    const int64_t width = (i == 0 ? p.heads : p.kv_heads) * p.head;
    gains = gains || p.operands[i]->type.shape.rank() == 4 || rows.tokens_first || !(rows.width == width);
    p.starts[i] = rows.start;
    p.tokens_first[i] = rows.tokens_first ? 1 : 0;
  }
  if (!gains) return false;
  for (const Rows& rows : *operands) {
    inputs.push_back(as_rank_3(node, rows));
    if (inputs.back() == nullptr) return false;
  }
  return replace_with_rows(node, p, inputs);
}

template <typename Rewrite>
bool for_each_attention(Graph& graph, Rewrite&& rewrite) {
  bool changed = false;
  for (Node* node : graph.snapshot()) {
    if (!graph.contains(node)) continue;
    const auto parts = parts_of(*node);
    changed = (parts && rewrite(node, *parts)) || changed;
  }
  return changed;
}

}  // namespace

bool read_heads_in_place(Graph& graph) {
  return for_each_attention(graph,
                            [](Node* node, const Parts& p) { return node->op == "Attention" && in_place(node, p); });
}

bool merge_projections(Graph& graph) { return for_each_attention(graph, merge); }

}  // namespace deepjit
