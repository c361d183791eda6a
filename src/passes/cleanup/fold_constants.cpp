#include "passes/cleanup/fold_constants.h"

#include <algorithm>

#include "base/visit.h"
#include "graph/infer.h"
#include "ops/sequence/sequence.h"
#include "passes/edit.h"
#include "passes/evaluate_op.h"

namespace deepjit {

namespace {

constexpr int64_t kMaxBytes = int64_t{64} << 20;
constexpr int64_t kFreeBytes = int64_t{1} << 20;
constexpr int64_t kMaxGrowth = 4;

// Bytes of a tensor as folding weighs them: strings are at least their objects.
int64_t weight(const TensorDesc& desc) {
  return desc.dtype == DType::STRING ? checked_mul(desc.count(), sizeof(std::string)) : desc.bytes();
}

bool too_large(int64_t bytes, int64_t input_bytes) {
  return bytes > kMaxBytes || (bytes > kFreeBytes && bytes > kMaxGrowth * input_bytes);
}

// The largest known size of the node's outputs; 0 when no shape is known before evaluating.
int64_t known_output_bytes(const Node& node) {
  int64_t bytes = 0;
  for (const Value* out : node.outputs) {
    if (out == nullptr || !out->type.shape.as_const()) continue;
    bytes = std::max(bytes, weight({out->type.dtype, *out->type.shape.as_const()}));
  }
  return bytes;
}

bool all_constant(const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [](const Value* v) { return v == nullptr || v->is_constant(); });
}

// Replaces the node's outputs by constants; false when one has to keep its name and cannot.
bool take_results(Node* node, const std::vector<Tensor>& results) {
  for (size_t i = 0; i < node->outputs.size(); ++i) {
    Value* out = node->outputs[i];
    if (out == nullptr) continue;
    replace_value(out, node->graph->add_constant(results[i], out->name));
  }
  node->graph->erase(node);
  return true;
}

bool fold_evaluated(Node* node) {
  const OpDef& def = find_op(node->op);
  if (!def.deterministic || !def.evaluate || !node->bodies.empty() || !all_constant(*node)) return false;
  // Sequences and optionals are cheap to make, and no constants.
  for (const Value* out : node->outputs) {
    if (out != nullptr && is_collection(out->type.dtype)) return false;
  }
  int64_t input_bytes = 0;
  std::vector<Tensor> inputs;
  for (const Value* v : node->inputs) {
    inputs.push_back(v == nullptr ? Tensor() : v->constant);
    if (v != nullptr) input_bytes += weight(v->constant.view().desc());
  }
  std::vector<bool> wanted;
  for (const Value* v : node->outputs) wanted.push_back(v != nullptr);
  std::vector<Tensor> results;
  try {
    if (too_large(known_output_bytes(*node), input_bytes)) return false;
    results = evaluate_op(def, node->attrs, inputs, wanted);
  } catch (const Error&) {
    return false;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!wanted[i]) continue;
    if (!results[i].defined() || results[i].dtype() != node->outputs[i]->type.dtype) return false;
    if (too_large(weight(results[i].view().desc()), input_bytes)) return false;
  }
  return take_results(node, results);
}

// Shape arithmetic: the elements are known although the inputs are not constants.
bool fold_known_elements(Node* node) {
  bool changed = false;
  for (Value* out : node->outputs) {
    if (out == nullptr || Graph::use_count(out) == 0 || !ranked(out) || out->type.shape.rank() > 1) continue;
    const auto elements = known_ints(out);
    if (!elements) continue;
    Dims dims;
    if (out->type.shape.rank() == 1) dims.push_back(static_cast<int64_t>(elements->size()));
    Tensor tensor(out->type.dtype, dims);
    if (out->type.dtype == DType::BOOL) {
      for (size_t i = 0; i < elements->size(); ++i) tensor.as<uint8_t>()[i] = (*elements)[i] != 0;
    } else {
      visit_numeric(out->type.dtype, "shape arithmetic", [&]<typename T>() {
        for (size_t i = 0; i < elements->size(); ++i) {
          tensor.as<T>()[i] = static_cast<T>(static_cast<compute_t<T>>((*elements)[i]));
        }
      });
    }
    replace_value(out, node->graph->add_constant(std::move(tensor), out->name));
    changed = true;
  }
  return changed;
}

bool fold_if(Node* node) {
  if (node->op != "If") return false;
  const auto condition = scalar_of(node->inputs[0]);
  if (!condition) return false;
  std::vector<Value*> results = node->graph->inline_body(node, *condition != 0 ? 0 : 1);
  for (size_t i = 0; i < node->outputs.size(); ++i) {
    Value* out = node->outputs[i];
    if (out == nullptr) continue;
    // A result may be known better, or be an input or a value with a name of its own to keep.
    if (!replaceable(out, results[i])) results[i] = emit(node, "Identity", {results[i]}, {}, node);
    out->type = results[i]->type;
    replace_value(out, results[i]);
  }
  node->graph->erase(node);
  return true;
}

}  // namespace

bool fold_constants(Graph& graph) {
  bool changed = false;
  bool inlined = false;
  for (Node* node : graph.snapshot()) {
    if (fold_if(node)) {
      inlined = true;
    } else if (fold_evaluated(node)) {
      changed = true;
    } else if (node->bodies.empty()) {
      changed = fold_known_elements(node) || changed;
    }
  }
  if (inlined) infer_types(graph.root());
  return changed || inlined;
}

}  // namespace deepjit
