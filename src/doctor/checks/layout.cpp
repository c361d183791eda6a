// DJ201, DJ202: Transposes that undo each other, at once or around element-wise operators.
#include <map>
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
    const TensorType type = model.type(graph, input_of(*node, 0));
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

Permutation inverse(const Permutation& perm) {
  Permutation out(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) out[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return out;
}

// Element-wise nodes that hang together, all that goes into them through one Transpose, and all that comes out of them
// back through its inverse.
struct Region {
  Nodes inner, entering, leaving;
  // Constants that run along one axis, in the layout outside; single numbers mean the same in any layout.
  std::map<std::string, Tensor> constants;
  bool movable = true;  // whether every constant is one of these
};

class RegionFinder {
 public:
  RegionFinder(const ModelView& model, const GraphView& graph, const Permutation& perm)
      : model_(model), graph_(graph), perm_(perm), back_(inverse(perm)) {}

  // The region that `first` leads into; nothing when another path leads in or out.
  std::optional<Region> grow(const onnx::NodeProto& first) {
    if (!enter(&first)) return std::nullopt;
    for (size_t i = 0; i < region_.inner.size(); ++i) {
      if (i > kLargest || !follow(*region_.inner[i])) return std::nullopt;
    }
    if (region_.inner.empty()) return std::nullopt;
    return region_;
  }

 private:
  static constexpr size_t kLargest = 1000;

  static bool add(Nodes& nodes, const onnx::NodeProto* node) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    return true;
  }

  bool inside(const onnx::NodeProto* node) {
    return node != nullptr && element_wise(*node) && node->output_size() == 1 && add(region_.inner, node);
  }

  // Nobody else may need what a Transpose gives: it is to go.
  bool enter(const onnx::NodeProto* transpose) {
    add(region_.entering, transpose);
    const std::string& value = output_of(*transpose, 0);
    return !graph_.is_output(value) &&
           std::all_of(graph_.readers(value).begin(), graph_.readers(value).end(), [&](auto* n) { return inside(n); });
  }

  bool follow(const onnx::NodeProto& node) {
    for (const std::string& input : node.input()) {
      if (input.empty()) continue;
      if (const Tensor* constant = model_.constant(graph_, input)) {
        if (!take_constant(input, *constant)) return false;
        continue;
      }
      const onnx::NodeProto* before = graph_.producer(input);
      const auto perm = permutation(model_, graph_, before);
      if (perm ? !(*perm == perm_ && enter(before)) : !inside(before)) return false;
    }
    const std::string& value = output_of(node, 0);
    const Nodes& readers = graph_.readers(value);
    return !graph_.is_output(value) && !readers.empty() &&
           std::all_of(readers.begin(), readers.end(), [&](const onnx::NodeProto* reader) {
             const auto perm = permutation(model_, graph_, reader);
             return perm ? *perm == back_ && add(region_.leaving, reader) : inside(reader);
           });
  }

  bool take_constant(const std::string& name, const Tensor& constant) {
    if (constant.count() == 1) return true;
    const int rank = static_cast<int>(perm_.size());
    const Dims& dims = constant.dims();
    if (dims.rank() > rank) return false;
    Dims outside = Dims::filled(rank, 1);
    int wide = 0;
    for (int i = 0; i < dims.rank(); ++i) {
      if (dims[i] == 1) continue;
      ++wide;
      outside[static_cast<int>(perm_[static_cast<size_t>(rank - dims.rank() + i)])] = dims[i];
    }
    region_.movable = region_.movable && wide == 1;
    if (wide == 1) region_.constants[name] = constant.reshaped(outside);
    return true;
  }

  const ModelView& model_;
  const GraphView& graph_;
  const Permutation& perm_;
  Permutation back_;
  Region region_;
};

// Takes the Transposes around a region away.
struct OpenRegion {
  int scope;
  std::vector<std::string> inner;                        // the values inside
  std::map<std::string, std::string> entering, leaving;  // what a Transpose gives, from what it takes
  std::map<std::string, Tensor> constants;

  void operator()(Editor& editor) const {
    std::map<std::string, std::string> inputs = entering;
    for (const auto& [name, tensor] : constants) inputs[name] = editor.add_initializer(scope, name + "_moved", tensor);
    for (const std::string& value : inner) {
      onnx::NodeProto* node = editor.producer(scope, value);
      for (std::string& input : *node->mutable_input()) {
        const auto found = inputs.find(input);
        if (found != inputs.end()) input = found->second;
      }
    }
    for (const auto& [value, source] : leaving) editor.alias(scope, value, source);
  }
};

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
  Chain chain{{&node}, *last, input_of(node, 0)};
  while (!(identity(chain.perm) && chain.nodes.size() > 1)) {
    const onnx::NodeProto* before = graph.producer(chain.source);
    const auto perm = permutation(model, graph, before);
    const auto both = perm ? composed(*perm, chain.perm) : std::nullopt;
    if (!both) break;
    chain.nodes.push_back(before);
    chain.perm = *both;
    chain.source = input_of(*before, 0);
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
    finding.mend = [scope = graph.index(), value = output_of(node, 0), source = chain->source, undone,
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
  std::set<const onnx::NodeProto*> told;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    const auto perm = permutation(model, graph, &node);
    if (!perm || identity(*perm) || told.count(&node) != 0) return;
    const auto region = RegionFinder(model, graph, *perm).grow(node);
    if (!region) return;
    told.insert(region->entering.begin(), region->entering.end());
    Finding& finding =
        checkup.found(graph, node,
                      "only " + counted(region->inner.size(), "element-wise node") + " until the Transpose \"" +
                          graph.name_of(*region->leaving.front()) + "\" goes back");
    Nodes transposes = region->entering;
    transposes.insert(transposes.end(), region->leaving.begin(), region->leaving.end());
    Checkup::costs(finding, transposes);
    if (!region->movable) return;
    OpenRegion mend{graph.index(), {}, {}, {}, region->constants};
    for (const onnx::NodeProto* inner : region->inner) mend.inner.push_back(output_of(*inner, 0));
    for (const onnx::NodeProto* t : region->entering) mend.entering[output_of(*t, 0)] = input_of(*t, 0);
    for (const onnx::NodeProto* t : region->leaving) mend.leaving[output_of(*t, 0)] = input_of(*t, 0);
    finding.mend = mend;
  });
}

}  // namespace deepjit::doctor
