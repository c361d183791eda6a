// Calls of model-local functions, inlined.
#include <algorithm>
#include <functional>

#include "import/onnx/builder.h"
#include "import/onnx/text.h"

namespace deepjit::importer {

namespace {

// What a list of nodes becomes when all calls in it are inlined. Doubles: exponents, not sums, are what matters.
struct InlinedSize {
  double nodes = 0;
  double bytes = 0;  // of functions' nodes, once a call

  void add(const InlinedSize& other, double times = 1) {
    nodes += times * other.nodes;
    bytes += times * other.bytes;
  }
};

class InlinedSizes {
 public:
  using Callee = std::function<const onnx::FunctionProto*(const onnx::NodeProto&)>;
  InlinedSizes(Callee callee, int max_depth) : callee_(std::move(callee)), max_depth_(max_depth) {}

  InlinedSize of(const NodeProtos& nodes) {
    InlinedSize size;
    for (const auto& node : nodes) {
      size.nodes += 1;
      if (const onnx::FunctionProto* function = callee_(node)) size.add(of(*function));
      const double times = node.op_type() == "Loop" || node.op_type() == "Scan" ? 3 : 1;
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) size.add(of(attribute.g().node()), times);
      }
    }
    return size;
  }

 private:
  // A ring of calls or too deep a nest counts nothing here: the inlining itself finds and names it.
  InlinedSize of(const onnx::FunctionProto& function) {
    const auto [it, added] = known_.emplace(&function, InlinedSize{});
    if (!added || depth_ >= max_depth_) return it->second;
    ++depth_;
    InlinedSize size = of(function.node());
    --depth_;
    for (const auto& node : function.node()) size.bytes += static_cast<double>(node.ByteSizeLong());
    known_[&function] = size;
    return size;
  }

  Callee callee_;
  int max_depth_;
  int depth_ = 0;
  std::unordered_map<const onnx::FunctionProto*, InlinedSize> known_;
};

}  // namespace

void Builder::check_inlined_size() const {
  if (functions_.empty()) return;
  InlinedSizes sizes([this](const onnx::NodeProto& node) { return function_of(node); }, options_.max_depth);
  const InlinedSize size = sizes.of(model_.graph().node());
  if (size.nodes > static_cast<double>(options_.max_nodes)) too_many_nodes();
  if (size.bytes > static_cast<double>(options_.max_inlined_bytes)) {
    throw Error(Code::LIMIT, "the model's functions have more than " + std::to_string(options_.max_inlined_bytes) +
                                 " bytes when they are inlined");
  }
}

AttributeMap Builder::bind_attributes(const Scope& scope, const onnx::NodeProto& proto,
                                      const onnx::FunctionProto& function) {
  AttributeMap bound;
  for (const auto& attribute : function.attribute_proto()) bound[attribute.name()] = &attribute;
  for (const auto& attribute : proto.attribute()) {
    check_name(attribute.name(), "attribute");
    if (attribute.ref_attr_name().empty()) {
      bound[attribute.name()] = &attribute;
      continue;
    }
    const auto found = scope.attributes == nullptr ? AttributeMap::const_iterator{}
                                                   : scope.attributes->find(attribute.ref_attr_name());
    if (scope.attributes != nullptr && found != scope.attributes->end()) bound[attribute.name()] = found->second;
  }
  return bound;
}

void Builder::call_function(Scope& scope, const onnx::NodeProto& proto, const onnx::FunctionProto& function,
                            const std::string& name, std::vector<Value*> inputs) {
  if (std::find(call_stack_.begin(), call_stack_.end(), &function) != call_stack_.end()) {
    std::string ring;
    for (const auto* open : call_stack_) ring += open->name() + " -> ";
    throw Error(Code::GRAPH_CYCLE, "functions call each other in a ring: " + ring + function.name());
  }
  if (++depth_ > options_.max_depth) throw Error(Code::DEPTH, "subgraphs and function calls nest too deep");
  count_node();
  if (inputs.size() > static_cast<size_t>(function.input_size()) || proto.output_size() > function.output_size()) {
    throw Error(Code::ARITY, "calls function " + quoted(function.name()) + " with " + std::to_string(inputs.size()) +
                                 " inputs and " + std::to_string(proto.output_size()) + " outputs, it takes " +
                                 std::to_string(function.input_size()) + " and gives " +
                                 std::to_string(function.output_size()));
  }
  check_opset(function_opsets_.at(&function), "function " + quoted(function.name()));
  const AttributeMap attributes = bind_attributes(scope, proto, function);
  call_stack_.push_back(&function);
  Scope inner;
  inner.graph = scope.graph;
  inner.opsets = &function_opsets_.at(&function);
  inner.attributes = &attributes;
  inner.in_function = true;
  inner.prefix = shortened(name) + "/";
  for (int i = 0; i < function.input_size(); ++i) {
    const auto k = static_cast<size_t>(i);
    check_name(function.input(i), "input");
    define(inner, function.input(i), k < inputs.size() ? inputs[k] : nullptr);
  }
  std::unordered_set<std::string> produced;
  for (const auto& node : function.node()) produced.insert(node.output().begin(), node.output().end());
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty() || produced.count(function.output(i)) == 0) continue;
    if (inner.rename.count(function.output(i)) != 0) continue;
    inner.rename[function.output(i)] = value_name(scope, proto.output(i));
  }
  add_nodes(inner, function.node());
  bind_results(scope, inner, proto, function, name);
  call_stack_.pop_back();
  --depth_;
}

void Builder::bind_results(Scope& outer, Scope& inner, const onnx::NodeProto& proto,
                           const onnx::FunctionProto& function, const std::string& name) {
  std::unordered_set<const Value*> bound;
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty()) continue;
    Value* value = resolve(inner, function.output(i));
    if (value == nullptr) {
      throw Error(Code::UNDEFINED_VALUE,
                  "output " + quoted(function.output(i)) + " of the function is an omitted input");
    }
    const auto renamed = inner.rename.find(function.output(i));
    // A value that came in, or one that is given twice, gets a name of its own.
    if (renamed == inner.rename.end() || !bound.insert(value).second) {
      value = add_node(outer, "Identity", name, {value}, {}, {value_name(outer, proto.output(i))})->output(0);
    }
    define(outer, proto.output(i), value);
  }
}

}  // namespace deepjit::importer
