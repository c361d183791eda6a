#include "codegen/row_plan.h"

#include <algorithm>
#include <set>

namespace deepjit {

namespace {

// In rough instructions an element: above this a value is kept rather than computed again.
constexpr int kCheapBesideMemory = 16;
constexpr int kCheapBesideRegisters = 3;

}  // namespace

RowPlan::RowPlan(const KernelIr& kernel, Keeping keeping)
    : kernel_(kernel),
      keeping_(keeping),
      per_element_(kernel.per_element()),
      stage_(kernel.stages()),
      live_(kernel.insts.size()) {
  find_live();
  for (size_t i = 0; i < kernel.insts.size(); ++i) {
    if (live_[i] && !is_reduction(kernel.insts[i].op)) stages_ = std::max(stages_, stage_[i] + 1);
  }
  for (const Store& s : kernel.stores) {
    const bool along = kernel.accesses[static_cast<size_t>(s.access)].moves_along_row();
    if (along) stages_ = std::max(stages_, stage_of(s) + 1);
  }
  put_off();
  while (keeping != Keeping::NOWHERE && find_costly()) {
  }
}

// What computing one element costs, in rough instructions.
int RowPlan::cost_of(const Inst& inst) const {
  if (inst.op != Opcode::LOAD || keeping_ != Keeping::IN_REGISTERS) return rough_cost(inst.op);
  return is_plain_load(kernel_, inst) ? 0 : 20;
}

// Moves what is computed for each element to the first pass that needs it.
void RowPlan::put_off() {
  std::vector<int> first(kernel_.insts.size(), stages_);
  for (const Store& s : kernel_.stores) {
    int& at = first[static_cast<size_t>(s.value)];
    at = std::min(at, stage_of(s));
  }
  for (size_t i = kernel_.insts.size(); i-- > 0;) {
    if (!live_[i]) continue;
    const Inst& inst = kernel_.insts[i];
    if (per_element_[i] && first[i] < stages_) stage_[i] = std::max(stage_[i], first[i]);
    if (!per_element_[i] && !is_reduction(inst.op)) continue;
    for (int32_t arg : inst.args) {
      if (arg >= 0) first[static_cast<size_t>(arg)] = std::min(first[static_cast<size_t>(arg)], stage_[i]);
    }
  }
}

int RowPlan::stage_of(const Store& store) const {
  return stage_of(store.value) + (is_reduction(kernel_.insts[static_cast<size_t>(store.value)].op) ? 1 : 0);
}

void RowPlan::find_live() {
  for (const Store& s : kernel_.stores) live_[static_cast<size_t>(s.value)] = true;
  for (size_t i = kernel_.insts.size(); i-- > 0;) {
    for (int32_t arg : kernel_.insts[i].args) {
      if (live_[i] && arg >= 0) live_[static_cast<size_t>(arg)] = true;
    }
  }
}

// Keeps one more value; false when there is none.
bool RowPlan::find_costly() {
  const bool in_registers = keeping_ == Keeping::IN_REGISTERS;
  const int cheap = in_registers ? kCheapBesideRegisters : kCheapBesideMemory;
  std::vector<int> cost(kernel_.insts.size(), 0);
  for (size_t i = 0; i < kernel_.insts.size(); ++i) {
    if (!per_element_[i]) continue;
    cost[i] = cost_of(kernel_.insts[i]);
    for (int32_t arg : kernel_.insts[i].args) {
      if (arg >= 0 && per_element(arg) && !is_kept(arg)) cost[i] += cost[static_cast<size_t>(arg)];
    }
  }
  for (size_t i = 0; i < kernel_.insts.size(); ++i) {
    const Inst& inst = kernel_.insts[i];
    if (!live_[i] || (!per_element_[i] && !is_reduction(inst.op))) continue;
    for (int32_t arg : inst.args) {
      if (arg < 0 || !per_element(arg) || is_kept(arg) || stage_[i] <= stage_of(arg)) continue;
      if (cost[static_cast<size_t>(arg)] <= cheap) continue;
      if (!in_registers && kernel_.insts[static_cast<size_t>(arg)].type != DType::FLOAT32) continue;
      kept_.emplace(arg, static_cast<int>(kept_.size()));
      return true;
    }
  }
  return false;
}

std::vector<int32_t> RowPlan::reductions_of(int stage) const {
  std::vector<int32_t> out;
  for (size_t i = 0; i < kernel_.insts.size(); ++i) {
    if (live_[i] && is_reduction(kernel_.insts[i].op) && stage_[i] == stage) out.push_back(static_cast<int32_t>(i));
  }
  return out;
}

std::vector<Store> RowPlan::stores_of(int stage) const {
  std::vector<Store> out;
  for (const Store& s : kernel_.stores) {
    const bool along = kernel_.accesses[static_cast<size_t>(s.access)].moves_along_row();
    if (along && stage_of(s) == stage) out.push_back(s);
  }
  return out;
}

std::vector<int32_t> RowPlan::needed_in(int stage, bool keeping) const {
  std::set<int32_t> wanted;
  std::vector<int32_t> work;
  auto want = [&](int32_t index) {
    if (index >= 0 && per_element(index) && wanted.insert(index).second) work.push_back(index);
  };
  for (int32_t reduction : reductions_of(stage)) want(kernel_.insts[static_cast<size_t>(reduction)].args[0]);
  for (const Store& s : stores_of(stage)) want(s.value);
  if (keeping) {
    for (const auto& [index, buffer] : kept_) {
      if (stage_of(index) == stage) want(index);
    }
  }
  while (!work.empty()) {
    const int32_t index = work.back();
    work.pop_back();
    if (keeping && read_back(index, stage)) continue;
    for (int32_t arg : kernel_.insts[static_cast<size_t>(index)].args) want(arg);
  }
  return {wanted.begin(), wanted.end()};
}

}  // namespace deepjit
