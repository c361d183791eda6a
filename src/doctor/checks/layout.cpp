// DJ201, DJ202: Transposes that undo each other, at once or around element-wise operators.
#include <numeric>
#include <set>

#include "doctor/checkup.h"
#include "doctor/editor.h"

namespace deepjit::doctor {

namespace {

using Permutation = std::vector<int64_t>;

std::optional<Permutation> permutation(const ModelView& model, const GraphView& graph, const onnx::NodeProto* node) {
  if (!is(node, "Transpose") || node->output_size() != 1) return std::nullopt;
  auto perm = ints_attribute(*node, "perm");
  if (!perm) {
    const TensorType type = model.type(graph, node->input(0));
    if (!type.shape.ranked()) return std::nullopt;
    perm.emplace(static_cast<size_t>(type.shape.rank()));
    std::iota(perm->rbegin(), perm->rend(), 0);
  }
  std::set<int64_t> axes(perm->begin(), perm->end());
  if (axes.size() != perm->size() ||
      (!axes.empty() && (*axes.begin() != 0 || *axes.rbegin() + 1 != std::ssize(*perm)))) {
    return std::nullopt;
  }
  return perm;
}

// The permutation that `first` and then `second` make.
std::optional<Permutation> composed(const Permutation& first, const Permutation& second) {
  if (first.size() != second.size()) return std::nullopt;
  Permutation out;
  for (int64_t axis : second) out.push_back(first[static_cast<size_t>(axis)]);
  return out;
}

bool identity(const Permutation& perm) { return std::is_sorted(perm.begin(), perm.end()); }

bool element_wise(const onnx::NodeProto& node) {
  static const std::set<std::string> unary = {
      "Relu", "LeakyRelu", "Sigmoid",  "Tanh", "Clip", "Elu",   "Selu",       "HardSigmoid", "HardSwish", "Gelu",
      "Mish", "Softplus",  "Softsign", "Abs",  "Neg",  "Exp",   "Log",        "Sqrt",        "Erf",       "Floor",
      "Ceil", "Round",     "Identity", "Cast", "Celu", "Swish", "Reciprocal", "Sign"};
  static const std::set<std::string> binary = {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu"};
  return default_domain(node) && (unary.count(node.op_type()) != 0 || binary.count(node.op_type()) != 0);
}

// The element-wise nodes from the value of one Transpose to the next, one reader each, and what they work with
// besides.
struct Region {
  Nodes nodes;
  const onnx::NodeProto* second = nullptr;
  bool plain = true;  // every other operand is one number: it means the same in any layout
};

Region region_after(const ModelView& model, const GraphView& graph, const onnx::NodeProto& first) {
  Region region;
  std::string value = first.output(0);
  for (;;) {
    const onnx::NodeProto* next = graph.only_reader(value);
    if (next == nullptr) return region;
    if (is(next, "Transpose")) {
      region.second = next;
      return region;
    }
    if (!element_wise(*next) || next->output_size() != 1) return region;
    for (const std::string& input : next->input()) {
      if (input == value || input.empty()) continue;
      const Tensor* constant = model.constant(graph, input);
      if (constant == nullptr) return region;  // another activation has a layout of its own
      // A vector runs along the last axis, which another layout has elsewhere.
      region.plain = region.plain && constant->count() == 1 && constant->dims().rank() <= 1;
    }
    region.nodes.push_back(next);
    value = next->output(0);
  }
}

// Transposes in a row up to `node`, and what they do together.
struct Chain {
  Nodes nodes;  // the last first
  Permutation perm;
  std::string source;
};

// The shortest chain that does nothing, else the longest.
std::optional<Chain> chain_at(const ModelView& model, const GraphView& graph, const onnx::NodeProto& node) {
  const auto last = permutation(model, graph, &node);
  if (!last) return std::nullopt;
  Chain chain{{&node}, *last, node.input(0)};
  while (!(identity(chain.perm) && chain.nodes.size() > 1)) {
    const onnx::NodeProto* before = graph.producer(chain.source);
    const auto perm = permutation(model, graph, before);
    const auto both = perm ? composed(*perm, chain.perm) : std::nullopt;
    if (!both) break;
    chain.nodes.push_back(before);
    chain.perm = *both;
    chain.source = before->input(0);
  }
  return chain;
}

}  // namespace

void check_transpose_pair(Checkup& checkup) {
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    const auto chain = chain_at(checkup.model, graph, node);
    if (!chain || chain->nodes.size() < 2) return;
    const bool undone = identity(chain->perm);
    // Two that make a third are a habit of attention: the heads to the front, and the keys turned.
    if (!undone && chain->nodes.size() < 3) return;
    Finding& finding =
        checkup.found(graph, node,
                      "ends " + std::to_string(chain->nodes.size()) + " Transposes in a row, from \"" + chain->source +
                          "\" on; " + (undone ? "together they do nothing" : "one would do"));
    Checkup::costs(finding, chain->nodes);
    finding.mend = [scope = graph.index(), value = node.output(0), source = chain->source, undone,
                    perm = chain->perm](Editor& editor) {
      if (undone) return editor.alias(scope, value, source);
      if (onnx::NodeProto* made = editor.redefine(scope, value, "Transpose", {source})) {
        editor.set_ints(*made, "perm", perm);
      }
    };
  });
}

void check_layout_ping_pong(Checkup& checkup) {
  const ModelView& model = checkup.model;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    const auto first = permutation(model, graph, &node);
    if (!first) return;
    const Region region = region_after(model, graph, node);
    const auto second = permutation(model, graph, region.second);
    const auto both = second ? composed(*first, *second) : std::nullopt;
    if (!both || region.nodes.empty() || !identity(*both) || identity(*first)) return;
    Finding& finding = checkup.found(graph, node,
                                     "only " + counted(region.nodes.size(), "element-wise node") +
                                         " until the Transpose \"" + graph.name_of(*region.second) + "\" goes back");
    Checkup::costs(finding, {&node, region.second});
    if (!region.plain) return;
    std::vector<std::string> values;
    for (const onnx::NodeProto* inner : region.nodes) values.push_back(inner->output(0));
    finding.mend = [scope = graph.index(), start = node.output(0), source = node.input(0), values,
                    end = region.second->output(0)](Editor& editor) {
      onnx::NodeProto* head = editor.producer(scope, values.front());
      if (head == nullptr || editor.producer(scope, end) == nullptr) return;
      for (std::string& input : *head->mutable_input()) {
        if (input == start) input = source;
      }
      editor.alias(scope, end, values.back());
    };
  });
}

}  // namespace deepjit::doctor
