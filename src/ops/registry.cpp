#include <map>
#include <memory>

#include "ops/ml/ml.h"
#include "ops/op.h"
#include "ops/sequence/sequence.h"
#include "ops/text/text.h"

namespace deepjit {

namespace {

struct Storage {
  OpRegistry registry;
  Storage() {
    add_math_ops(registry);
    add_activation_ops(registry);
    add_cast_ops(registry);
    add_quantize_ops(registry);
    add_random_ops(registry);
    add_view_ops(registry);
    add_movement_ops(registry);
    add_index_ops(registry);
    add_generate_ops(registry);
    add_sort_ops(registry);
    add_reduce_ops(registry);
    add_matmul_ops(registry);
    add_conv_ops(registry);
    add_pool_ops(registry);
    add_norm_ops(registry);
    add_rnn_ops(registry);
    add_image_ops(registry);
    add_attention_ops(registry);
    add_signal_ops(registry);
    add_loss_ops(registry);
    add_label_encoder_op(registry);
    add_tree_ops(registry);
    add_control_ops(registry);
    add_sequence_ops(registry);
    add_text_ops(registry);
  }
};

}  // namespace

void OpRegistry::add(OpDef def) {
  check_internal(find(def.name) == nullptr, "op defined twice: " + def.name);
  auto owned = std::make_unique<OpDef>(std::move(def));
  by_name_.emplace(owned->name, owned.get());
  all_.push_back(owned.get());
  owned_.push_back(std::move(owned));
}

const OpDef* OpRegistry::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

const OpRegistry& op_registry() {
  static const Storage storage;
  return storage.registry;
}

const OpDef& find_op(std::string_view name) {
  const OpDef* def = op_registry().find(name);
  if (def == nullptr) throw Error(Code::UNSUPPORTED_OP, "operator " + std::string(name) + " is not supported");
  return *def;
}

std::optional<std::vector<int64_t>> InferContext::constant_ints(int i) const {
  const std::vector<Dim>* values = has_input(i) ? input_values(i) : nullptr;
  if (values == nullptr) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *values) {
    if (!d.is_const()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

Shape InferContext::fresh_shape(int rank) {
  if (rank > kMaxRank) throw Error(Code::LIMIT, "rank " + std::to_string(rank) + " is above the limit of 16");
  std::vector<Dim> dims;
  for (int i = 0; i < rank; ++i) dims.push_back(fresh_dim());
  return Shape(std::move(dims));
}

}  // namespace deepjit
