#include "passes/cleanup/fold_constants.h"

#include <algorithm>
#include <cmath>

#include "base/visit.h"
#include "graph/infer.h"
#include "ops/sequence/sequence.h"
#include "passes/edit.h"
#include "passes/evaluate_op.h"

namespace deepjit {

namespace {

// Bytes of a tensor as folding weighs them: strings are at least their objects.
int64_t weight(const TensorDesc& desc) {
  return desc.dtype == DType::STRING ? checked_mul(desc.count(), sizeof(std::string)) : desc.bytes();
}

// How large one result of inputs this large may be.
int64_t most_bytes(int64_t input_bytes) {
  const int64_t grown = input_bytes > limits::fold_result_bytes ? input_bytes : limits::fold_growth * input_bytes;
  return std::min(limits::fold_result_bytes, std::max(limits::fold_free_bytes, grown));
}

// Sizes of the node's outputs, as far as they are known before evaluating.
struct Expected {
  int64_t largest_bytes = 0;
  int64_t elements = 0;
};

Expected expected_of(const Node& node) {
  Expected expected;
  for (const Value* out : node.outputs) {
    if (out == nullptr || !out->type.shape.as_const()) continue;
    const TensorDesc desc{out->type.dtype, *out->type.shape.as_const()};
    expected.largest_bytes = std::max(expected.largest_bytes, weight(desc));
    expected.elements = checked_add(expected.elements, desc.count());
  }
  return expected;
}

// Multiply-adds, roughly: for a product [M,K] x [K,N] -> [M,N] the root is M*K*N.
double work_of(const OpDef& def, const std::vector<Tensor>& inputs, int64_t output_elements) {
  double first = 1;
  double second = 1;
  double sum = static_cast<double>(output_elements);
  for (const Tensor& input : inputs) {
    if (!input.defined()) continue;
    const auto n = static_cast<double>(input.count());
    sum += n;
    second = std::max(second, std::min(first, n));
    first = std::max(first, n);
  }
  if (def.pointwise || def.view) return sum;
  return std::max(sum, std::sqrt(first * second * static_cast<double>(output_elements)));
}

// Bytes of the inputs that nobody else reads: their place is free when the node is gone.
int64_t freed_bytes(const Node& node) {
  int64_t bytes = 0;
  for (const Value* v : node.inputs) {
    if (v != nullptr && Graph::use_count(v) == 1) bytes += weight(v->constant.view().desc());
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

bool fold_evaluated(Node* node, FoldBudget& budget) {
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
  const int64_t most = most_bytes(input_bytes);
  std::vector<Tensor> results;
  try {
    infer_node(*node);  // what was unknown when shapes were inferred is a constant by now: the op's own checks
    const Expected expected = expected_of(*node);
    const double work = work_of(def, inputs, expected.elements);
    if (expected.largest_bytes > most || work > budget.work) return false;
    budget.work -= work;
    results = evaluate_op(def, node->attrs, inputs, wanted, most);
  } catch (const Error&) {
    return false;
  }
  int64_t added = -freed_bytes(*node);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!wanted[i]) continue;
    if (!results[i].defined() || results[i].dtype() != node->outputs[i]->type.dtype) return false;
    added += weight(results[i].view().desc());
  }
  if (added > budget.bytes) return false;
  budget.bytes -= std::max<int64_t>(added, 0);
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

bool fold_constants_within(Graph& graph, FoldBudget& budget) {
  if (!budget.started) {
    budget.started = true;
    for_each_graph(graph.root(), [&](Graph& g) {
      g.for_each_value([&](const Value* v) { budget.bytes += limits::fold_growth * v->constant.bytes(); });
    });
  }
  bool changed = false;
  bool inlined = false;
  for (Node* node : graph.snapshot()) {
    if (fold_if(node)) {
      inlined = true;
    } else if (fold_evaluated(node, budget)) {
      changed = true;
    } else if (node->bodies.empty()) {
      changed = fold_known_elements(node) || changed;
    }
  }
  if (inlined) infer_types(graph.root());
  return changed || inlined;
}

bool fold_constants(Graph& graph) {
  FoldBudget budget;
  return fold_constants_within(graph, budget);
}

}  // namespace deepjit
