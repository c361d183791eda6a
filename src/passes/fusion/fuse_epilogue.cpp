#include "passes/fusion/fuse_epilogue.h"

#include "passes/edit.h"
#include "passes/fusion/epilogue_entries.h"
#include "passes/layout/permutation.h"

namespace deepjit {

namespace {

constexpr size_t kMaxEntries = 8;
constexpr size_t kMaxOperands = 3;

bool is_conv(const std::string& op) {
  return op == "Conv" || op == "ConvTranspose" || op == "deepjit.Conv" || op == "deepjit.ConvTranspose";
}

bool is_matmul(const std::string& op) { return op == "MatMul" || op == "deepjit.MatMul" || op == "Gemm"; }

// A vector along the last dim.
bool is_row(const Value* v, const Value* result) {
  if (!ranked(v) || v->type.dtype != result->type.dtype) return false;
  const Shape& shape = v->type.shape;
  const Shape& to = result->type.shape;
  return shape.rank() == 1 && to.rank() >= 1 && shape[0] == to[to.rank() - 1];
}

// The operand as a bias vector: itself, or a constant [1,..,1,D] without its leading dims.
Value* as_bias(const Node* near, Value* v, const Value* result) {
  if (is_row(v, result)) return v;
  if (!v->is_constant() || v->type.dtype != result->type.dtype || v->constant.dims().rank() < 2) return nullptr;
  const Dims& dims = v->constant.dims();
  if (dims.count() != dims.back() || !(result->type.shape[result->type.shape.rank() - 1] == dims.back()))
    return nullptr;
  return emit_constant(near, v->constant.reshaped(Dims{dims.back()}), v->name);
}

// The fused op in the making.
struct Fused {
  std::string op;
  std::vector<Value*> inputs;
  Attributes attrs;
  std::vector<std::string> entries;
  size_t operands = 0;
};

// Gemm as deepjit.MatMul; nothing when it scales.
std::optional<Fused> start_gemm(const Node& node) {
  if (node.attrs.get_float("alpha", 1) != 1) return std::nullopt;
  Fused out{.op = "deepjit.MatMul", .inputs = {node.input(0), node.input(1), nullptr}, .attrs = {}, .entries = {}};
  if (node.attrs.get_int("transA", 0) != 0) out.attrs.set("trans_a", int64_t{1});
  if (node.attrs.get_int("transB", 0) != 0) out.attrs.set("trans_b", int64_t{1});
  if (node.input(2) == nullptr) return out;
  if (node.attrs.get_float("beta", 1) != 1) return std::nullopt;
  if (is_row(node.input(2), node.output())) {
    out.inputs[2] = node.input(2);
  } else {
    out.inputs.push_back(node.input(2));
    out.entries.push_back("Add($3)");
    out.operands = 1;
  }
  return out;
}

std::optional<Fused> start(const Node& node) {
  if (node.op == "Gemm") return start_gemm(node);
  Fused out{.op = node.op, .inputs = node.inputs, .attrs = node.attrs, .entries = node.attrs.get_strings("epilogue")};
  if (out.op.rfind("deepjit.", 0) != 0) out.op = "deepjit." + out.op;
  while (out.inputs.size() < 3) out.inputs.push_back(nullptr);
  out.operands = out.inputs.size() - 3;
  return out;
}

bool append(Fused& fused, const EpilogueEntry& entry, const Value* result) {
  if (entry.operand == nullptr) {
    if (!fused.entries.empty()) {
      if (const auto both = merge_linear(fused.entries.back(), entry.text)) {
        fused.entries.back() = *both;
        return true;
      }
    }
    fused.entries.push_back(entry.text);
    return true;
  }
  if (entry.text == "Add" && fused.entries.empty() && fused.op == "deepjit.MatMul" && fused.inputs[2] == nullptr) {
    fused.inputs[2] = as_bias(result->producer, entry.operand, result);
    if (fused.inputs[2] != nullptr) return true;
  }
  if (fused.operands == kMaxOperands) return false;
  fused.entries.push_back(entry.text + "($" + std::to_string(fused.inputs.size()) + ")");
  fused.inputs.push_back(entry.operand);
  fused.operands += 1;
  return true;
}

bool fuse_readers(Node* node) {
  const bool conv = is_conv(node->op);
  if (!conv && !is_matmul(node->op)) return false;
  if (node->outputs.size() != 1 || !ranked(node->output()) || !is_float(node->output()->type.dtype)) return false;
  auto fused = start(*node);
  if (!fused) return false;
  std::vector<Node*> taken;
  const Value* v = node->output();
  while (fused->entries.size() < kMaxEntries) {
    Node* reader = only_user(v);
    if (reader == nullptr) break;
    const auto entry = as_epilogue_entry(*reader, v);
    if (!entry || !append(*fused, *entry, v)) break;
    taken.push_back(reader);
    v = reader->output();
  }
  if (taken.empty()) return false;
  if (!fused->entries.empty()) fused->attrs.set("epilogue", fused->entries);
  // At the last reader's place every operand is computed.
  Node* last = taken.back();
  Value* result = emit(last, fused->op, fused->inputs, fused->attrs, node);
  for (const Node* reader : taken) {
    std::vector<std::string>& origins = result->producer->origins;
    origins.insert(origins.end(), reader->origins.begin(), reader->origins.end());
  }
  replace_value(last->output(), result);
  Graph& graph = *node->graph;
  for (size_t i = taken.size(); i-- > 0;) graph.erase(taken[i]);
  graph.erase(node);
  return true;
}

// MatMul(a, Transpose(b)) with the last two axes swapped.
bool read_transposed(Node* node) {
  if (node->op != "MatMul" && node->op != "deepjit.MatMul") return false;
  const Node* transpose = producer_of(node->input(1), "Transpose");
  if (transpose == nullptr || !ranked(transpose->input(0)) || !is_float(node->input(1)->type.dtype)) return false;
  Permutation p = perm_of(*transpose);
  if (p.size() < 2 || only_user(transpose->output()) != node) return false;
  std::swap(p[p.size() - 1], p[p.size() - 2]);
  if (!is_identity(p)) return false;
  std::vector<Value*> inputs = node->inputs;
  inputs[1] = transpose->input(0);
  Attributes attrs = node->attrs;
  attrs.set("trans_b", int64_t{attrs.get_int("trans_b", 0) == 0});
  Value* result = emit(node, "deepjit.MatMul", inputs, std::move(attrs), node);
  return replace_node(node, result);
}

}  // namespace

bool fuse_epilogue(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) changed = read_transposed(node) || changed;
  for (Node* node : graph.snapshot()) {
    if (graph.contains(node)) changed = fuse_readers(node) || changed;
  }
  return changed;
}

}  // namespace deepjit
