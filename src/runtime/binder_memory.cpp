// The memory half of bind(): where each value lives, what shares memory, and the arena's layout.
#include <algorithm>
#include <climits>

#include "ops/op.h"
#include "plan/arena.h"
#include "program/combo.h"
#include "runtime/binder.h"
#include "runtime/control.h"

namespace deepjit {

// Decides where the block's outputs live, and where every other root lives.
void Binder::settle_outputs() {
  home_.assign(states_.size(), Home::NONE);
  auto set_home = [&](int32_t buffer, Home home) { home_[static_cast<size_t>(buffer)] = home; };
  for (const BoundStep& bound : binding_->steps) {
    const bool owned = bound.kind != BoundStep::Kind::KERNEL;
    for (int32_t buffer : bound.outputs) {
      if (buffer >= 0) set_home(buffer, owned ? Home::OWNED : Home::ARENA);
    }
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].known.defined() || program_.buffers[i].is_constant) home_[i] = Home::CONSTANT;
  }
  for (const auto& [buffer, desc] : request_.inputs) set_home(buffer, Home::EXTERNAL);
  for (const auto& [buffer, value] : request_.known) set_home(buffer, Home::CONSTANT);

  for (int32_t buffer : program_.blocks[static_cast<size_t>(request_.block)].outputs) {
    const int32_t r = root(buffer);
    const Home home = home_[static_cast<size_t>(r)];
    if (home == Home::ARENA) {
      home_[static_cast<size_t>(r)] = Home::OUTPUT;
      binding_->outputs.push_back({buffer, r, false});
    } else if (home == Home::OWNED) {
      binding_->outputs.push_back({buffer, buffer, true});
    } else {  // an input, a constant, an output already, or empty: hand out a copy
      const auto slot = static_cast<int32_t>(states_.size());
      const BufferState state = states_[static_cast<size_t>(buffer)];
      states_.push_back(state);
      states_.back().known = Tensor();
      alias_.push_back(slot);
      const bool objects = is_object(state.type.dtype);
      home_.push_back(objects ? Home::OWNED : Home::OUTPUT);
      binding_->slots.emplace_back();
      binding_->outputs.push_back({slot, slot, objects});
      BoundStep copy;
      copy.kind = BoundStep::Kind::COPY;
      copy.inputs = {buffer};
      copy.outputs = {slot};
      copy.on_host = objects && request_.device != nullptr;
      if (home != Home::NONE) binding_->steps.push_back(std::move(copy));
    }
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    const auto dims = states_[i].type.shape.as_const();
    if (states_[i].available && dims) binding_->slots[i].desc = {states_[i].type.dtype, *dims};
  }
}

void Binder::use(int32_t buffer, int moment, Side side) {
  if (buffer < 0) return;
  const auto r = static_cast<size_t>(root(buffer));
  first_use_[side][r] = std::min(first_use_[side][r], moment);
  last_use_[side][r] = std::max(last_use_[side][r], moment);
}

void Binder::note_uses() {
  for (const Side side : {MAIN, HOST}) {
    first_use_[side].assign(states_.size(), INT_MAX);
    last_use_[side].assign(states_.size(), -1);
  }
  moment_.clear();
  int moment = 0;
  for (const BoundStep& bound : binding_->steps) {
    moment_.push_back(moment);
    const bool combo = bound.kind == BoundStep::Kind::KERNEL && is_combo(program_, *bound.step);
    if (combo && bound.step->tactic.provider == llvm_launcher().name()) {
      moment = note_combo_uses(bound, moment);
      continue;
    }
    const Side reads = bound.kind == BoundStep::Kind::UPLOAD ? HOST : side_of(bound);
    const Side writes = bound.kind == BoundStep::Kind::DOWNLOAD ? HOST : side_of(bound);
    for (int32_t buffer : bound.inputs) use(buffer, moment, reads);
    for (int32_t buffer : bound.outputs) use(buffer, moment, writes);
    if (bound.kind == BoundStep::Kind::CONTROL) {
      for (int32_t block : bound.step->blocks) {
        for (int32_t buffer : info_.imports[static_cast<size_t>(block)]) use(buffer, moment, reads);
      }
    }
    ++moment;
  }
}

// The parts of a combo of the CPU run one after another: they need no more memory than as steps of their own. Those of
// a GPU run at the same time.
int Binder::note_combo_uses(const BoundStep& bound, int moment) {
  for (int32_t index : program_.blocks[static_cast<size_t>(bound.step->blocks[0])].steps) {
    const Step& inner = program_.steps[static_cast<size_t>(index)];
    if (inner.op != kRegionOp) continue;
    for (int32_t buffer : inner.inputs) use(buffer, moment, side_of(bound));
    for (int32_t buffer : inner.outputs) use(buffer, moment, side_of(bound));
    ++moment;
  }
  return moment;
}

// A pointwise step whose operand dies with it writes over that operand.
void Binder::work_in_place() {
  for (size_t i = 0; i < binding_->steps.size(); ++i) {
    const BoundStep& bound = binding_->steps[i];
    if (bound.kind != BoundStep::Kind::KERNEL || bound.outputs.size() != 1) continue;
    if (!find_op(bound.step->op).pointwise) continue;
    const auto out = static_cast<size_t>(bound.outputs[0]);
    if (home_[out] != Home::ARENA) continue;
    const TensorDesc& wanted = binding_->slots[out].desc;
    auto fits = [&](int32_t buffer) {
      const TensorDesc& desc = binding_->slots[static_cast<size_t>(buffer)].desc;
      return desc.dims == wanted.dims && dtype_size(desc.dtype) == dtype_size(wanted.dtype);
    };
    for (int32_t buffer : bound.inputs) {
      if (buffer < 0 || !fits(buffer)) continue;
      const auto r = static_cast<size_t>(root(buffer));
      // Dead on both sides: the two values would share their memory on both.
      if (home_[r] != Home::ARENA || std::max(last_use_[MAIN][r], last_use_[HOST][r]) != moment_[i]) continue;
      const bool only_same_shape = std::all_of(bound.inputs.begin(), bound.inputs.end(), [&](int32_t other) {
        return other < 0 || root(other) != static_cast<int32_t>(r) || fits(other);
      });
      if (!only_same_shape) continue;
      alias_[out] = buffer;
      home_[out] = Home::NONE;
      for (const Side side : {MAIN, HOST}) {
        first_use_[side][r] = std::min(first_use_[side][r], first_use_[side][out]);
        last_use_[side][r] = std::max(last_use_[side][r], last_use_[side][out]);
      }
      break;
    }
  }
}

void Binder::lay_out(Side side, Binding& binding) const {
  std::vector<Lifetime> lifetimes;
  std::vector<int32_t> buffers;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!lies_in_arena(i, side)) continue;
    buffers.push_back(static_cast<int32_t>(i));
    lifetimes.push_back(
        {static_cast<size_t>(binding_->slots[i].desc.bytes()), first_use_[side][i], last_use_[side][i]});
  }
  const ArenaLayout layout = plan_arena(lifetimes);
  for (size_t i = 0; i < buffers.size(); ++i) binding.in_arena.emplace_back(buffers[i], layout.offsets[i]);
  binding.arena_bytes = layout.bytes;
  binding.arena_lower_bound = layout.lower_bound;
}

void Binder::lay_out_arena() {
  lay_out(MAIN, *binding_);
  for (size_t i = 0; i < states_.size(); ++i) {
    const int32_t r = root(static_cast<int32_t>(i));
    if (r == static_cast<int32_t>(i)) continue;
    const bool owned = home_[static_cast<size_t>(r)] == Home::OWNED;
    if (!owned || made_on_host_[static_cast<size_t>(r)]) binding_->aliases.emplace_back(static_cast<int32_t>(i), r);
    if (!owned) continue;
    for (BoundStep& bound : binding_->steps) {
      if (bound.kind == BoundStep::Kind::UPLOAD) continue;
      if (std::count(bound.outputs.begin(), bound.outputs.end(), r) == 0) continue;
      const bool fixed_shape = binding_->slots[i].desc.dtype != DType::UNDEFINED;
      bound.followers.push_back({static_cast<int32_t>(i), r, fixed_shape});
    }
  }
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    if (program_.buffers[i].constant.defined()) binding_->slots[i].data = program_.buffers[i].constant.view().data;
  }
  for (auto& [buffer, value] : binding_->known) binding_->slots[static_cast<size_t>(buffer)].data = value.view().data;
}

}  // namespace deepjit
