#include "lower/explain.h"

#include <algorithm>
#include <functional>

#include "ops/op.h"

namespace deepjit {

namespace {

std::string named(const Node& node) { return node.op + " \"" + node.name + "\""; }

std::vector<std::string> symbols_of(const Dim& dim) {
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  return symbols;
}

// A dim of an output that no operand has: the data decides it.
const Dim* dim_from_data(const Node& node) {
  std::vector<std::string> given;
  for (const Value* v : node.inputs) {
    if (v == nullptr) continue;
    if (v->type.shape.ranked()) {
      for (const Dim& d : v->type.shape.dims()) d.collect_symbols(given);
    }
    if (v->values) {
      for (const Dim& d : *v->values) d.collect_symbols(given);
    }
  }
  for (const Value* v : node.outputs) {
    if (v == nullptr || !v->type.shape.ranked()) continue;
    for (const Dim& d : v->type.shape.dims()) {
      for (const std::string& symbol : symbols_of(d)) {
        if (std::find(given.begin(), given.end(), symbol) == given.end()) return &d;
      }
    }
  }
  return nullptr;
}

bool reduces(const Node& node) {
  static const char* const words[] = {"Reduce", "Softmax", "Normalization", "GlobalAveragePool", "GlobalMaxPool"};
  return node.op != "BatchNormalization" && std::any_of(std::begin(words), std::end(words), [&](const char* word) {
           return node.op.find(word) != std::string::npos;
         });
}

Refusal why_epilogue(const Edge& edge) {
  const Node& library = *edge.producer;
  const Node& reader = *edge.consumer;
  const Value& v = *edge.value;
  std::string reason = "the epilogue of " + named(library) + " does not take " + named(reader);
  const Value* out = reader.output();
  if (!find_op(reader.op).pointwise) {
    return {Why::LIBRARY_EPILOGUE, reason + (reduces(reader) ? ": it goes over rows of the result" : ""),
            "put elementwise operators behind " + named(library) + ": an epilogue sees one element at a time"};
  }
  const size_t uses = Graph::use_count(&v);
  if (uses > 1 || Graph::is_output(&v)) {
    const std::string who = Graph::is_output(&v) ? "it is an output too" : std::to_string(uses) + " nodes read it";
    return {Why::LIBRARY_SHARED, "the result of " + named(library) + " stays in memory: " + who,
            Graph::is_output(&v) ? "do not make \"" + v.name + "\" an output"
                                 : "let one node read \"" + v.name + "\" and the others read that node"};
  }
  if (!edge.views.empty()) {
    return {Why::LIBRARY_EPILOGUE, reason + ": " + named(*edge.views.front()) + " stands between",
            "move " + named(*edge.views.front()) + " behind " + named(reader)};
  }
  if (out != nullptr && out->type.dtype != v.type.dtype) {
    reason += ": it turns " + v.type.to_string() + " into " + out->type.to_string();
    return {Why::LIBRARY_EPILOGUE, reason, "keep the type of the result in " + named(reader)};
  }
  if (out != nullptr && !(out->type.shape == v.type.shape)) {
    reason += ": it turns " + v.type.to_string() + " into " + out->type.to_string();
    return {Why::LIBRARY_EPILOGUE, reason, "give " + named(reader) + " operands that broadcast to the result's shape"};
  }
  return {Why::LIBRARY_EPILOGUE, reason};
}

std::string axes_text(const Node& node) {
  if (node.input(1) != nullptr && node.input(1)->is_constant() && is_integer(node.input(1)->type.dtype)) {
    std::string text;
    for (int64_t axis : node.input(1)->constant.to_i64()) {
      text += text.empty() ? "" : ",";
      text += std::to_string(axis);
    }
    return " over axes [" + text + "]";
  }
  const auto& attrs = node.attrs.all();
  if (attrs.count("axis") != 0) return " over axis " + std::to_string(node.attrs.get_int("axis", -1));
  return "";
}

}  // namespace

bool is_library_op(const std::string& op) {
  static const char* const ops[] = {
      "Conv",        "ConvTranspose", "MatMul", "Gemm",         "ConvInteger",           "MatMulInteger",
      "QLinearConv", "QLinearMatMul", "Einsum", "deepjit.Conv", "deepjit.ConvTranspose", "deepjit.MatMul"};
  return std::any_of(std::begin(ops), std::end(ops), [&](const char* known) { return op == known; });
}

Refusal why_not_generated(const Node& node, Refusal refusal) {
  if (refusal.rule != Why::OP_NOT_GENERATED) return refusal;
  if (const Dim* dim = dim_from_data(node)) {
    return {Why::DATA_DEPENDENT_SHAPE, named(node) + " makes the size " + dim->to_string() + " from data"};
  }
  return refusal;
}

Refusal why_by_nodes(const Edge& edge) {
  const Node& from = *edge.producer;
  const Node& to = *edge.consumer;
  if (!from.bodies.empty()) return {Why::CONTROL_FLOW, named(from) + " runs its bodies as steps of their own"};
  if (!to.bodies.empty()) {
    return {Why::CONTROL_FLOW, edge.in_body ? "a body of " + named(to) + " reads \"" + edge.value->name + "\""
                                            : named(to) + " runs its bodies as steps of their own"};
  }
  if (edge.gives_shape) {
    return {Why::DATA_DEPENDENT_SHAPE, named(to) + " takes its shape from \"" + edge.value->name + "\", which is data",
            "make \"" + edge.value->name + "\" a constant, or compute it from shapes"};
  }
  const bool library_from = is_library_op(from.op);
  const bool library_to = is_library_op(to.op);
  if (library_from && library_to) {
    return {Why::LIBRARY_PAIR, named(from) + " and " + named(to) + " are two library calls"};
  }
  if (library_to) {
    return {Why::LIBRARY_INPUT, named(to) + " reads " + edge.value->type.to_string() + " from memory",
            "move " + named(from) + " behind " + named(to) + ", where it can become its epilogue"};
  }
  return library_from ? why_epilogue(edge) : Refusal{};
}

Refusal with_nodes(Refusal refusal, const std::vector<const Node*>& nodes) {
  const bool about_rows = refusal.rule == Why::REDUCTIONS_DIFFER || refusal.rule == Why::ROW_CUT;
  const bool about_order = refusal.rule == Why::ROW_NOT_DENSE || refusal.rule == Why::AXIS_TWICE;
  std::string list;
  for (const Node* node : nodes) {
    if (about_rows && reduces(*node)) list += (list.empty() ? ": " : ", ") + named(*node) + axes_text(*node);
    if (about_order && node->op == "Transpose") {
      refusal.reason += ": " + named(*node);
      if (refusal.fix.empty()) refusal.fix = "move " + named(*node) + " to the start or the end of the chain";
      return refusal;
    }
  }
  refusal.reason += list;
  return refusal;
}

DimOrigins::DimOrigins(const Graph& graph) {
  const Graph* root = &graph;
  while (root->parent() != nullptr) root = root->parent();
  for (const Value* input : root->inputs) {
    if (!input->type.shape.ranked()) continue;
    for (int i = 0; i < input->type.shape.rank(); ++i) {
      const Dim& d = input->type.shape[i];
      if (d.is_symbol()) inputs_.emplace(d.to_string(), "dim " + std::to_string(i) + " of input " + input->name);
    }
  }
  const std::function<void(const Graph&)> visit = [&](const Graph& g) {
    for (const auto& node : g.nodes()) {
      for (const Value* v : node->outputs) {
        if (v == nullptr || !v->type.shape.ranked()) continue;
        for (const Dim& d : v->type.shape.dims()) {
          for (const std::string& symbol : symbols_of(d)) nodes_.emplace(symbol, node.get());
        }
      }
      for (const auto& body : node->bodies) visit(*body);
    }
  };
  visit(*root);
}

std::string DimOrigins::where(const Dim& dim) const {
  std::string text;
  for (const std::string& symbol : symbols_of(dim)) {
    const auto input = inputs_.find(symbol);
    const auto node = nodes_.find(symbol);
    const std::string origin = input != inputs_.end() ? input->second
                               : node != nodes_.end() ? "made by " + named(*node->second)
                                                      : "";
    if (origin.empty()) continue;
    if (dim.is_symbol()) return input != inputs_.end() ? origin + " (" + symbol + ")" : symbol + " (" + origin + ")";
    text += (text.empty() ? "" : ", ") + symbol + " is " + origin;
  }
  return text.empty() ? dim.to_string() : dim.to_string() + " (" + text + ")";
}

std::vector<Dim> DimOrigins::joined(const Dim& dim) const {
  const auto made = dim.is_symbol() ? nodes_.find(dim.to_string()) : nodes_.end();
  if (made == nodes_.end() || inputs_.count(dim.to_string()) != 0) return {dim};
  const Node& node = *made->second;
  const Value* out = node.output();
  std::vector<Dim> found;
  if (!find_op(node.op).pointwise || out == nullptr || !out->type.shape.ranked()) return {dim};
  const Shape& result = out->type.shape;
  for (int from_right = 1; from_right <= result.rank(); ++from_right) {
    if (!(result[result.rank() - from_right] == dim)) continue;
    for (const Value* v : node.inputs) {
      if (v == nullptr || !v->type.shape.ranked() || v->type.shape.rank() < from_right) continue;
      const Dim& d = v->type.shape[v->type.shape.rank() - from_right];
      if (!(d == 1)) found.push_back(d);
    }
  }
  return found.empty() ? std::vector<Dim>{dim} : found;
}

std::string DimOrigins::fix_for(const Refusal& refusal) const {
  if (!refusal.fix.empty()) return refusal.fix;
  std::vector<Dim> dims;  // each once, the constants last
  for (const Dim& given : refusal.dims) {
    for (const Dim& d : joined(given)) {
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) dims.push_back(d);
    }
  }
  std::stable_partition(dims.begin(), dims.end(), [](const Dim& d) { return !d.is_const(); });
  if (refusal.rule == Why::DIMS_NOT_EQUAL && dims.size() >= 2 && !dims[0].is_const()) {
    if (dims[1].is_const()) return "make " + where(dims[0]) + " static at " + dims[1].to_string();
    return "give " + where(dims[0]) + " and " + where(dims[1]) + " one name at export, or make both static";
  }
  if (refusal.rule == Why::SIZE_UNTOLD && !dims.empty()) return "make " + where(dims[0]) + " static";
  return why_rule(refusal.rule).fix;
}

}  // namespace deepjit
