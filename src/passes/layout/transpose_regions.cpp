// Regions of layout-agnostic nodes, what turning one costs, and the turning.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "graph/infer.h"
#include "passes/edit.h"
#include "passes/evaluate_op.h"
#include "passes/layout/transpose_rules.h"
#include "passes/layout/transposes.h"

namespace deepjit {

namespace {

// Nodes that exchange values and work on any axis order, in graph order. Turning by p replaces every value
// v of the region by v' with v == Transpose(v', p).
struct Region {
  std::vector<Node*> nodes;
  std::unordered_set<const Node*> members;
  std::vector<Value*> inputs;   // distinct values from outside that have to be turned
  std::vector<Value*> results;  // values that something outside reads
  bool contains(const Node* node) const { return members.count(node) != 0; }
};

class Groups {
 public:
  void add(Node* node) { parent_[node] = node; }
  bool has(Node* node) const { return parent_.count(node) != 0; }
  Node* find(Node* node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  void join(Node* a, Node* b) { parent_[find(a)] = find(b); }

 private:
  std::unordered_map<Node*, Node*> parent_;
};

int rank_of(const Node* node) { return node->output()->type.shape.rank(); }

// The Transpose that makes v; nullptr also where nobody knows the rank of what it turns, and where it reads the
// region itself, whose values turn too.
Node* transpose_before(const Value* v, const Region& region) {
  Node* node = producer_of(v, "Transpose");
  if (node == nullptr || !ranked(node->input(0))) return nullptr;
  const Node* source = node->input(0)->producer;
  return source != nullptr && region.contains(source) ? nullptr : node;
}

void complete(Region& region) {
  std::set<const Value*> seen;
  for (Node* node : region.nodes) {
    for (size_t i : permuted_inputs(*node)) {
      Value* v = node->inputs[i];
      const bool inside = v->producer != nullptr && region.contains(v->producer);
      if (!inside && seen.insert(v).second) region.inputs.push_back(v);
    }
    for (Value* out : node->outputs) {
      const bool outside =
          std::any_of(out->users.begin(), out->users.end(), [&](const Node* user) { return !region.contains(user); });
      if (outside || Graph::is_output(out)) region.results.push_back(out);
    }
  }
}

std::vector<Region> find_regions(Graph& graph) {
  Groups groups;
  const std::vector<Node*> nodes = graph.snapshot();
  for (Node* node : nodes) {
    if (is_layout_agnostic(*node)) groups.add(node);
  }
  std::map<const Value*, Node*> reader_of;  // readers of one outside value belong together
  for (Node* node : nodes) {
    if (!groups.has(node)) continue;
    for (size_t i : permuted_inputs(*node)) {
      Node* producer = node->inputs[i]->producer;
      if (producer != nullptr && groups.has(producer) && rank_of(producer) == rank_of(node)) {
        groups.join(node, producer);
      } else if (!node->inputs[i]->is_constant()) {
        Node*& first = reader_of[node->inputs[i]];
        if (first != nullptr) groups.join(node, first);
        first = node;
      }
    }
  }
  std::map<Node*, size_t> index;
  std::vector<Region> regions;
  for (Node* node : nodes) {
    if (!groups.has(node)) continue;
    const auto [it, is_new] = index.try_emplace(groups.find(node), regions.size());
    if (is_new) regions.emplace_back();
    regions[it->second].nodes.push_back(node);
    regions[it->second].members.insert(node);
  }
  for (Region& region : regions) complete(region);
  return regions;
}

bool only_read_inside(const Value* v, const Region& region) {
  return !Graph::is_output(v) &&
         std::all_of(v->users.begin(), v->users.end(), [&](const Node* user) { return region.contains(user); });
}

double bytes_of(const Value* v, const Permutation& p) { return transposed_bytes(v->type, p); }

// Bytes transposed at the border now, and after turning by p.
double saved_bytes(const Region& region, const Permutation& p) {
  const Permutation back = inverse(p);
  double now = 0;
  double then = 0;
  for (const Value* v : region.inputs) {
    if (v->is_constant()) continue;
    const Node* transpose = transpose_before(v, region);
    const bool dies = transpose != nullptr && only_read_inside(v, region);
    if (dies) now += bytes_of(transpose->input(0), perm_of(*transpose));
    if (transpose != nullptr) {
      const Permutation whole = compose(perm_of(*transpose), back);
      if (!is_identity(whole)) then += bytes_of(transpose->input(0), whole);
    } else {
      then += bytes_of(v, back);
    }
  }
  for (const Value* v : region.results) {
    bool needs_original = Graph::is_output(v);
    for (const Node* user : v->users) {
      if (region.contains(user)) continue;
      if (user->op == "Transpose" && user->graph == v->graph) {
        const Permutation q = perm_of(*user);
        now += bytes_of(v, q);
        const Permutation whole = compose(p, q);
        if (!is_identity(whole)) then += transposed_bytes({v->type.dtype, permute(v->type.shape, back)}, whole);
      } else if (user->graph != v->graph || !absorbs_permutation(*user, p)) {
        needs_original = true;
      }
    }
    if (needs_original) then += bytes_of(v, back);
  }
  return now - then;
}

bool is_fusing(const std::string& op) {
  for (const char* name : {"Conv", "ConvTranspose", "MatMul", "Gemm"}) {
    if (op == name || op == std::string("deepjit.") + name) return true;
  }
  return false;
}

// Turning moves a Transpose away from an op that can take the region's nodes into its epilogue.
bool frees_fusion(const Region& region, const Permutation& p) {
  for (const Value* v : region.inputs) {
    const Node* transpose = transpose_before(v, region);
    if (transpose == nullptr || !(perm_of(*transpose) == p) || !only_read_inside(v, region)) continue;
    const Value* x = transpose->input(0);
    if (x->producer != nullptr && is_fusing(x->producer->op) && only_user(x) != nullptr) return true;
  }
  return false;
}

std::set<Permutation> candidates(const Region& region) {
  std::set<Permutation> out;
  for (const Value* v : region.inputs) {
    if (const Node* t = transpose_before(v, region)) out.insert(perm_of(*t));
  }
  for (const Value* v : region.results) {
    for (const Node* user : v->users) {
      if (user->op == "Transpose" && !region.contains(user)) out.insert(inverse(perm_of(*user)));
    }
  }
  return out;
}

Tensor turn_constant(const Tensor& tensor, const Permutation& back) {
  Dims dims = Dims::filled(static_cast<int>(back.size()) - tensor.dims().rank(), 1);
  for (int64_t d : tensor.dims()) dims.push_back(d);
  Attributes attrs;
  attrs.set("perm", back);
  return evaluate_op(find_op("Transpose"), attrs, {tensor.reshaped(dims)}, {true})[0];
}

Value* make_transpose(Node* position, Value* x, const Permutation& p, const Node* like) {
  Attributes attrs;
  attrs.set("perm", p);
  return emit(position, "Transpose", {x}, std::move(attrs), like);
}

Node* node_after(Node* node) {
  const auto& nodes = node->graph->nodes();
  for (auto it = nodes.begin(); it != nodes.end(); ++it) {
    if (it->get() == node) return std::next(it) == nodes.end() ? nullptr : std::next(it)->get();
  }
  return nullptr;
}

// Readers outside the region that want the old axis order get it by a Transpose after the producer.
// Returns that Transpose, or nullptr when nobody needs it.
Node* give_original(const Region& region, Value* v, const Permutation& p) {
  std::vector<std::pair<Node*, size_t>> turned;  // uses that read the turned value from now on
  for (Node* user : std::set<Node*>(v->users.begin(), v->users.end())) {
    for (size_t i = 0; i < user->inputs.size(); ++i) {
      const bool keeps = region.contains(user) || (user->graph == v->graph && user->op == "Transpose") ||
                         (user->graph == v->graph && absorbs_permutation(*user, p));
      if (user->inputs[i] == v && keeps) turned.emplace_back(user, i);
    }
  }
  if (turned.size() == v->users.size() && !Graph::is_output(v)) return nullptr;
  Graph& graph = *v->graph;
  Attributes attrs;
  attrs.set("perm", p);
  Node* node = graph.add_node("Transpose", v->producer->name, {v}, std::move(attrs), {""}, node_after(v->producer));
  node->origins = v->producer->origins;
  infer_node(*node);
  Value* original = node->outputs[0];
  std::swap(v->name, original->name);
  Graph::replace_all_uses(v, original);
  graph.set_input(node, 0, v);
  for (auto [user, i] : turned) graph.set_input(user, i, v);
  return node;
}

void turn(const Region& region, const Permutation& p) {
  const Permutation back = inverse(p);
  Graph& graph = *region.nodes[0]->graph;
  std::map<const Value*, Value*> turned;
  for (Node* node : region.nodes) {
    const std::vector<size_t> permuted = permuted_inputs(*node);
    for (size_t i : permuted) {
      Value* v = node->inputs[i];
      if (v->producer != nullptr && region.contains(v->producer)) continue;
      Value*& to = turned[v];
      const Node* transpose = transpose_before(v, region);
      if (to == nullptr && v->is_constant()) to = emit_constant(node, turn_constant(v->constant, back), v->name);
      if (to == nullptr && transpose != nullptr && perm_of(*transpose) == p) to = transpose->input(0);
      if (to == nullptr) to = make_transpose(node, v, back, node);
      graph.set_input(node, i, to);
    }
    permute_node(node, p);
    for (Value* out : node->outputs) out->type.shape = permute(out->type.shape, back);
  }
  for (Value* v : region.results) {
    const Node* original = give_original(region, v, p);
    for (Node* user : std::set<Node*>(v->users.begin(), v->users.end())) {
      if (region.contains(user) || user == original) continue;
      if (user->op == "Transpose") {
        user->attrs.set("perm", compose(p, perm_of(*user)));
      } else {
        permute_node(user, p);
      }
    }
  }
}

}  // namespace

bool turn_regions(Graph& graph) {
  for (const Region& region : find_regions(graph)) {
    const Permutation* best = nullptr;
    double most = -1;
    const std::set<Permutation> perms = candidates(region);
    for (const Permutation& p : perms) {
      if (static_cast<int>(p.size()) != rank_of(region.nodes[0])) continue;
      const double saved = saved_bytes(region, p);
      if (saved <= most || saved < 0 || (saved == 0 && !frees_fusion(region, p))) continue;
      most = saved;
      best = &p;
    }
    if (best == nullptr) continue;
    turn(region, *best);
    return true;
  }
  return false;
}

}  // namespace deepjit
