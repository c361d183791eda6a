// RegionBuilder's values that several parts of a Concat want, each at places of its own.
//
// Where one part counts the others do not, so the value is computed once for all of them: f(a) in one part and f(b) in
// the other become f(select(in the first part, a, b)). Only what differs, mostly loads, is made for each part.
#include <algorithm>
#include <set>

#include "codegen/region/region_builder.h"

namespace deepjit {

namespace {

using Ref = IrBuilder::Ref;

void collect_conditions(const KernelIr& kernel, Ref guard, std::vector<Ref>& out) {
  if (guard < 0) return;
  const Inst& inst = kernel.insts[static_cast<size_t>(guard)];
  if (inst.op != Opcode::AND) return out.push_back(guard);
  collect_conditions(kernel, inst.args[0], out);
  collect_conditions(kernel, inst.args[1], out);
}

// One instruction for several of the same make, at places told apart by conditions.
class Merger {
 public:
  Merger(IrBuilder& builder, const std::vector<Ref>& conditions) : builder_(builder), conditions_(conditions) {}

  // -1 when the instructions are of different makes.
  Ref whole(const std::vector<Ref>& refs) {
    if (!alike(refs)) return -1;
    if (const auto known = made_.find(refs); known != made_.end()) return known->second;
    Inst inst = at(refs[0]);
    for (size_t k = 0; k < 3; ++k) {
      if (inst.args[k] >= 0) inst.args[k] = part(args_of(refs, k));
    }
    return made_[refs] = builder_.add_like(inst);
  }

 private:
  const Inst& at(Ref ref) const { return builder_.kernel.insts[static_cast<size_t>(ref)]; }

  std::vector<Ref> args_of(const std::vector<Ref>& refs, size_t k) const {
    std::vector<Ref> args;
    for (Ref ref : refs) args.push_back(at(ref).args[k]);
    return args;
  }

  bool alike(const std::vector<Ref>& refs) const {
    const Inst& first = at(refs[0]);
    if (first.args[0] < 0 || first.op == Opcode::LOAD || is_reduction(first.op)) return false;
    return std::all_of(refs.begin(), refs.end(), [&](Ref ref) {
      const Inst& inst = at(ref);
      bool same = inst.op == first.op && inst.type == first.type && inst.access == first.access;
      for (size_t k = 0; k < 3; ++k) {
        same = same && (inst.args[k] < 0) == (first.args[k] < 0) &&
               (inst.args[k] < 0 || builder_.type(inst.args[k]) == builder_.type(first.args[k]));
      }
      return same;
    });
  }

  Ref part(const std::vector<Ref>& refs) {
    if (std::all_of(refs.begin(), refs.end(), [&](Ref ref) { return ref == refs[0]; })) return refs[0];
    if (const Ref one = whole(refs); one >= 0) return one;
    Ref chosen = refs.back();
    for (size_t i = refs.size() - 1; i-- > 0;) chosen = builder_.select(conditions_[i], refs[i], chosen);
    return chosen;
  }

  IrBuilder& builder_;
  const std::vector<Ref>& conditions_;
  std::map<std::vector<Ref>, Ref> made_;
};

// The instructions that are needed once some stand for others, operands first.
class Rebuild {
 public:
  Rebuild(KernelIr& kernel, std::map<Ref, Ref> instead) : kernel_(kernel), instead_(std::move(instead)) {}

  void run() {
    for (Store& store : kernel_.stores) store.value = visit(store.value);
    kernel_.insts = std::move(out_);
  }

 private:
  Ref visit(Ref ref) {
    if (const auto other = instead_.find(ref); other != instead_.end()) ref = other->second;
    const auto [it, fresh] = place_.emplace(ref, -1);
    if (!fresh) {
      if (it->second < 0) throw Refusal{Why::RECOMPUTED, "a value that is wanted at several places decides where"};
      return it->second;
    }
    Inst inst = kernel_.insts[static_cast<size_t>(ref)];
    for (Ref& arg : inst.args) {
      if (arg >= 0) arg = visit(arg);
    }
    if (inst.op == Opcode::SELECT && inst.args[1] == inst.args[2]) return place_[ref] = inst.args[1];
    out_.push_back(inst);
    return place_[ref] = static_cast<Ref>(out_.size()) - 1;
  }

  KernelIr& kernel_;
  std::map<Ref, Ref> instead_;
  std::map<Ref, Ref> place_;  // -1: its operands are not placed yet
  std::vector<Inst> out_;
};

}  // namespace

void RegionBuilder::note_parts(const std::vector<Ref>& before_end, const std::vector<Ref>& from_begin) {
  for (size_t i = 0; i < before_end.size(); ++i) {
    for (size_t k = i + 1; k < from_begin.size(); ++k) {
      exclude_.emplace(before_end[i], from_begin[k]);
      exclude_.emplace(from_begin[k], before_end[i]);
    }
  }
}

bool RegionBuilder::joins(const Apart& group, const std::vector<Ref>& given, Ref& last) const {
  const auto excluded = [&](Ref condition) {
    return std::any_of(given.begin(), given.end(), [&](Ref c) { return exclude_.count({condition, c}) != 0; });
  };
  if (!std::all_of(group.conditions.begin(), group.conditions.end(), excluded)) return false;
  std::vector<Ref> conditions;
  collect_conditions(builder_.kernel, group.guard, conditions);
  const auto found = std::find_if(conditions.begin(), conditions.end(), excluded);
  if (found == conditions.end()) return false;
  last = *found;
  return true;
}

bool RegionBuilder::is_apart(int value, Ref guard, Ref ref) {
  std::vector<Apart>& groups = apart_[value];
  std::vector<Ref> given;
  collect_conditions(builder_.kernel, guard, given);
  for (Apart& group : groups) {
    Ref last = -1;
    if (!joins(group, given, last)) continue;
    group.conditions.push_back(last);
    group.refs.push_back(ref);
    group.guard = guard;
    return true;
  }
  groups.push_back({{ref}, {}, guard});
  return false;
}

void RegionBuilder::merge_apart() {
  std::map<Ref, Ref> instead;
  for (const auto& [value, groups] : apart_) {
    for (const Apart& group : groups) {
      const bool taken =
          std::any_of(group.refs.begin(), group.refs.end(), [&](Ref r) { return instead.count(r) != 0; });
      if (group.refs.size() < 2 || taken) continue;
      const Ref one = Merger(builder_, group.conditions).whole(group.refs);
      if (one < 0) continue;
      for (Ref ref : group.refs) {
        if (ref != one) instead[ref] = one;
      }
    }
  }
  if (!instead.empty()) Rebuild(builder_.kernel, std::move(instead)).run();
}

}  // namespace deepjit
