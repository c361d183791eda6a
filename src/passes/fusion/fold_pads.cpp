#include "passes/fusion/fold_pads.h"

#include <algorithm>

#include "graph/infer.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

// The pads of all axes, begins then ends; nothing unless the Pad is known and of zeros.
std::optional<std::vector<int64_t>> zero_pads(const Node* pad) {
  if (pad == nullptr || pad->attrs.get_string("mode", "constant") != "constant" || !ranked(pad->input(0))) {
    return std::nullopt;
  }
  if (pad->input(2) != nullptr && !is_scalar(pad->input(2), 0)) return std::nullopt;
  const auto pads = known_ints(pad->input(1));
  if (!pads || std::any_of(pads->begin(), pads->end(), [](int64_t p) { return p < 0; })) return std::nullopt;
  if (pad->input(3) == nullptr) return pads;
  const auto axes = known_ints(pad->input(3));
  if (!axes) return std::nullopt;
  const auto rank = static_cast<size_t>(pad->input(0)->type.shape.rank());
  std::vector<int64_t> full(2 * rank, 0);
  for (size_t i = 0; i < axes->size(); ++i) {
    const auto axis = static_cast<size_t>(normalize_axis((*axes)[i], static_cast<int>(rank)));
    full[axis] += (*pads)[i];
    full[axis + rank] += (*pads)[i + axes->size()];
  }
  return full;
}

bool fold(Node* node) {
  if (node->op != "Conv" && node->op != "deepjit.Conv") return false;
  Node* pad = producer_of(node->input(0), "Pad");
  const auto pads = zero_pads(pad);
  if (!pads || only_user(pad->output()) != node) return false;
  if (node->attrs.get_string("auto_pad", "NOTSET") != "NOTSET") return false;
  const size_t rank = pads->size() / 2;
  if (rank < 3) return false;
  const size_t first = node->attrs.get_string("layout", "NCHW") == "NHWC" ? 1 : 2;
  const size_t spatial = rank - 2;
  const size_t channel = first == 1 ? rank - 1 : 1;
  for (size_t axis : {size_t{0}, channel}) {
    if ((*pads)[axis] != 0 || (*pads)[axis + rank] != 0) return false;
  }
  std::vector<int64_t> own = node->attrs.get_ints("pads");
  own.resize(2 * spatial, 0);
  for (size_t i = 0; i < spatial; ++i) {
    own[i] += (*pads)[first + i];
    own[i + spatial] += (*pads)[first + i + rank];
  }
  node->attrs.set("pads", own);
  node->origins.insert(node->origins.end(), pad->origins.begin(), pad->origins.end());
  Graph& graph = *node->graph;
  graph.set_input(node, 0, pad->input(0));
  graph.erase(pad);
  return true;
}

}  // namespace

bool fold_pads(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) {
    if (graph.contains(node)) changed = fold(node) || changed;
  }
  return changed;
}

}  // namespace deepjit
