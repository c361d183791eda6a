#include "passes/fusion/split_to_slices.h"

#include <algorithm>
#include <array>

#include "ops/op.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

constexpr std::array kAliases = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
constexpr std::array kOthers = {"Transpose", "Concat", "Softmax", "LogSoftmax", "Pad", "Slice", "ArgMax", "ArgMin"};

template <typename List>
bool is_one_of(const List& list, const std::string& op) {
  return std::find(list.begin(), list.end(), op) != list.end();
}

bool may_fuse(const Node& reader);

bool read_by_kernels(const Value* value) {
  return value != nullptr &&
         std::any_of(value->users.begin(), value->users.end(), [](const Node* user) { return may_fuse(*user); });
}

bool may_fuse(const Node& reader) {
  if (is_one_of(kAliases, reader.op)) return read_by_kernels(reader.output());
  return find_op(reader.op).pointwise || is_one_of(kOthers, reader.op) || reader.op.starts_with("Reduce") ||
         reader.op.ends_with("Normalization");
}

// Where each part begins, and where the last one ends; nothing unless all sizes are known.
std::optional<std::vector<int64_t>> places(const Node& split, int axis) {
  const Dim& whole = split.input(0)->type.shape[axis];
  std::vector<int64_t> out = {0};
  for (const Value* part : split.outputs) {
    if (part == nullptr || !ranked(part) || !part->type.shape[axis].is_const()) return std::nullopt;
    out.push_back(out.back() + part->type.shape[axis].value());
  }
  if (!(whole == out.back())) return std::nullopt;
  return out;
}

bool rewrite(Node* split) {
  if (split->op != "Split" || !ranked(split->input(0))) return false;
  if (std::none_of(split->outputs.begin(), split->outputs.end(), read_by_kernels)) return false;
  const int axis = normalize_axis(split->attrs.get_int("axis", 0), split->input(0)->type.shape.rank());
  const auto at = places(*split, axis);
  if (!at) return false;
  for (size_t i = 0; i < split->outputs.size(); ++i) {
    Value* part = split->outputs[i];
    if (Graph::use_count(part) == 0) continue;
    Value* slice = emit(
        split, "Slice",
        {split->input(0), emit_ints(split, {(*at)[i]}), emit_ints(split, {(*at)[i + 1]}), emit_ints(split, {axis})}, {},
        split);
    replace_value(part, slice);
  }
  split->graph->erase(split);
  return true;
}

}  // namespace

bool split_to_slices(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) changed = rewrite(node) || changed;
  return changed;
}

}  // namespace deepjit
