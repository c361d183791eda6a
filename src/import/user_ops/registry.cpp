#include "import/user_ops/registry.h"

#include <mutex>
#include <set>

namespace deepjit {

namespace {

struct Registry {
  std::mutex mutex;
  std::shared_ptr<const UserOps> table = std::make_shared<const UserOps>();
};

// Never destroyed: references may hold what is gone by the time that static objects end.
Registry& registry() {
  static Registry& one = *new Registry;
  return one;
}

void check_against(const UserOps& known, const std::vector<RegisteredOp>& ops, bool replace) {
  std::set<std::string> names;
  for (const RegisteredOp& entry : ops) {
    const std::string& name = entry.op->definition.name;
    if (!names.insert(name).second) {
      throw Error(Code::ARGUMENT, "two of the ops are named " + name, "give each op a name of its own");
    }
    const auto found = known.find(name);
    if (replace || found == known.end() || found->second.op->definition == entry.op->definition) continue;
    throw Error(Code::STATE,
                "the op " + name + " is registered already, with another definition: " + found->second.op->text(),
                "replace it on purpose (replace = true), or choose another name");
  }
}

}  // namespace

std::shared_ptr<const UserOps> registered_user_ops() {
  const std::lock_guard lock(registry().mutex);
  return registry().table;
}

void check_user_ops_are_new(const std::vector<RegisteredOp>& ops, bool replace) {
  check_against(*registered_user_ops(), ops, replace);
}

void register_user_ops(std::vector<RegisteredOp> ops, bool replace) {
  std::shared_ptr<const UserOps> old;  // ends behind the lock: a reference may need other locks to end
  const std::lock_guard lock(registry().mutex);
  check_against(*registry().table, ops, replace);
  auto next = std::make_shared<UserOps>(*registry().table);
  for (RegisteredOp& entry : ops) {
    RegisteredOp& place = (*next)[entry.op->definition.name];
    if (entry.test == nullptr && place.op != nullptr && place.op->definition == entry.op->definition) {
      entry.test = place.test;
    }
    if (entry.test == nullptr) entry.test = std::make_shared<const UserOpTest>();
    place = std::move(entry);
  }
  old = std::exchange(registry().table, std::move(next));
}

bool forget_user_op(const std::string& name) {
  std::shared_ptr<const UserOps> old;
  const std::lock_guard lock(registry().mutex);
  if (registry().table->count(name) == 0) return false;
  auto next = std::make_shared<UserOps>(*registry().table);
  next->erase(name);
  old = std::exchange(registry().table, std::move(next));
  return true;
}

RegisteredOp require_user_op(const std::string& name) {
  const auto known = registered_user_ops();
  const auto found = known->find(name);
  if (found != known->end()) return found->second;
  std::string list;
  for (const auto& [other, unused] : *known) list += (list.empty() ? "" : ", ") + other;
  throw Error(Code::ARGUMENT, "no op \"" + name.substr(0, 100) + "\" is registered",
              list.empty() ? "no op is registered" : "registered are " + list);
}

void register_user_ops(const std::string& json, bool replace) {
  std::vector<RegisteredOp> ops;
  for (const UserOpDefinition& definition : parse_user_ops(json)) {
    ops.push_back({make_user_op(definition), nullptr});
    check_user_op_shapes(ops.back().op);
  }
  register_user_ops(std::move(ops), replace);
}

}  // namespace deepjit
