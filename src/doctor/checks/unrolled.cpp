// DJ132: a loop that tracing wrote out step by step.
//
// The steps of an unrolled loop apply the same operators with the same weights, each to the result of the step
// before, and differ only in the indices they slice at. So: nodes of one signature (operator, attributes, weights),
// each reached from the one before, with the same signatures between them. Stacks of layers have weights of their
// own; towers that share weights side by side are not chained.
#include <functional>
#include <map>
#include <string_view>

#include "doctor/checkup.h"

namespace deepjit::doctor {

namespace {

constexpr size_t kFewestSteps = 4;

class Signatures {
 public:
  Signatures(const ModelView& model, const GraphView& graph) : model_(model), graph_(graph) {
    for (const auto& node : graph.proto().node()) {
      if (is(&node, "Constant") || is(&node, "Identity")) continue;
      nodes_.push_back(&node);
      weighty_.push_back(false);
      texts_.push_back(text_of(node, weighty_.size() - 1));
    }
  }

  const Nodes& nodes() const { return nodes_; }
  const std::string& text(size_t i) const { return texts_[i]; }
  bool weighty(size_t i) const { return weighty_[i]; }  // reads a constant that is no index

 private:
  std::string text_of(const onnx::NodeProto& node, size_t at) {
    std::string text = node.domain() + "." + node.op_type();
    for (const auto& a : node.attribute()) {
      // Where a step slices is what tells steps apart.
      if (!a.has_g()) text += " " + a.SerializePartialAsString();
      if (a.has_g()) text += " " + a.name();
    }
    for (const auto& name : node.input()) {
      const Tensor* tensor = model_.constant(graph_, name);
      if (tensor == nullptr) {
        text += " _";
      } else if (is_float(tensor->dtype()) || tensor->count() > 64) {
        const std::string_view bytes(tensor->as<char>(), static_cast<size_t>(tensor->bytes()));
        text += " " + tensor->dims().to_string() + std::to_string(std::hash<std::string_view>()(bytes));
        weighty_[at] = true;
      } else {
        text += " index";
      }
    }
    return text;
  }

  const ModelView& model_;
  const GraphView& graph_;
  Nodes nodes_;
  std::vector<std::string> texts_;
  std::vector<char> weighty_;
};

// Is `to` computed from `from`, both at most `window` nodes apart?
bool reaches(const Signatures& all, size_t from, size_t to) {
  std::unordered_set<std::string> values(all.nodes()[from]->output().begin(), all.nodes()[from]->output().end());
  for (size_t i = from + 1; i <= to; ++i) {
    const onnx::NodeProto& node = *all.nodes()[i];
    for (const std::string& input : node.input()) {
      if (input.empty() || values.count(input) == 0) continue;
      if (i == to) return true;
      values.insert(node.output().begin(), node.output().end());
      break;
    }
  }
  return false;
}

bool same_step(const Signatures& all, size_t a, size_t b, size_t length) {
  for (size_t i = 0; i < length; ++i) {
    if (all.text(a + i) != all.text(b + i)) return false;
  }
  return true;
}

// Layers that share weights on purpose (ALBERT) attend; nobody unrolls that by accident.
bool attends(const Signatures& all, size_t from, size_t length) {
  for (size_t i = from; i < from + length; ++i) {
    const std::string& op = all.nodes()[i]->op_type();
    if (op == "Softmax" || op == "Attention" || op == "MultiHeadAttention") return true;
  }
  return false;
}

struct Loop {
  size_t start = 0, length = 0, steps = 0;
};

// The longest loop whose first step starts at one of `places`, which share a signature.
Loop longest(const Signatures& all, const std::vector<size_t>& places) {
  Loop best;
  for (size_t first = 0; first + kFewestSteps <= places.size();) {
    const size_t start = places[first];
    const size_t length = places[first + 1] - start;
    size_t steps = 1;
    while (first + steps < places.size() && places[first + steps] == start + steps * length) {
      const size_t previous = start + (steps - 1) * length;
      if (!same_step(all, start, previous, length) || !reaches(all, previous, previous + length)) break;
      ++steps;
    }
    if (steps > best.steps) best = {start, length, steps};
    first += steps;
  }
  return best;
}

}  // namespace

void check_unrolled_loop(Checkup& checkup) {
  for (const auto& graph : checkup.model.graphs()) {
    const Signatures all(checkup.model, *graph);
    std::map<std::string_view, std::vector<size_t>> groups;
    for (size_t i = 0; i < all.nodes().size(); ++i) {
      if (all.weighty(i)) groups[all.text(i)].push_back(i);
    }
    std::vector<Loop> loops;
    for (const auto& [text, places] : groups) {
      if (places.size() < kFewestSteps) continue;
      const Loop loop = longest(all, places);
      if (loop.steps < kFewestSteps || loop.length < 2 || attends(all, loop.start, loop.length)) continue;
      const bool known = std::any_of(loops.begin(), loops.end(), [&](const Loop& other) {
        return loop.start < other.start + other.length * other.steps &&
               other.start < loop.start + loop.length * loop.steps;
      });
      if (!known) loops.push_back(loop);
    }
    for (const Loop& loop : loops) {
      const size_t end = std::min(loop.start + loop.length * loop.steps, all.nodes().size());
      Nodes nodes(all.nodes().begin() + static_cast<std::ptrdiff_t>(loop.start),
                  all.nodes().begin() + static_cast<std::ptrdiff_t>(end));
      Finding& finding = checkup.found(*graph, *nodes.front(),
                                       "the same " + counted(loop.length, "node") + " with the same weights, " +
                                           std::to_string(loop.steps) + " times one after the other");
      Checkup::costs(finding, nodes);
    }
  }
}

}  // namespace deepjit::doctor
