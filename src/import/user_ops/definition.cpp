#include "import/user_ops/definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <shared_mutex>

namespace deepjit {

namespace {

[[noreturn]] void bad(const UserOpDefinition& d, const std::string& what, const std::string& hint = "") {
  throw Error(Code::ARGUMENT, "op " + d.name.substr(0, 100) + ": " + what, hint);
}

// "my.domain::Name"
void split_name(UserOp& op) {
  const std::string& name = op.definition.name;
  const size_t colons = name.rfind("::");
  op.domain = colons == std::string::npos ? "" : name.substr(0, colons);
  op.op_type = colons == std::string::npos ? name : name.substr(colons + 2);
  const bool plain = name.size() <= 1024 && std::all_of(op.domain.begin(), op.domain.end(), [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
                     });
  if (op.domain.empty() || !plain || !is_expression_name(op.op_type)) {
    throw Error(Code::ARGUMENT, "\"" + name.substr(0, 100) + "\" is no name of an op",
                "write domain::Name, such as my.ops::Swish");
  }
  if (op.domain == "ai.onnx" || op.domain == "deepjit") {
    bad(op.definition, "the domain " + op.domain + " is taken", "choose a domain of your own");
  }
  op.op = op.domain + "." + op.op_type;
}

void split_inputs(UserOp& op) {
  for (const std::string& text : op.definition.inputs) {
    const size_t colon = text.find(':');
    std::string name = text.substr(0, colon);
    while (!name.empty() && name.back() == ' ') name.pop_back();
    std::optional<DType> dtype;
    if (colon != std::string::npos) {
      const size_t start = text.find_first_not_of(' ', colon + 1);
      dtype = dtype_from_name(start == std::string::npos ? "" : text.substr(start));
      if (!dtype || is_object(*dtype)) bad(op.definition, "input \"" + text + "\" has no element type of tensors");
    }
    op.inputs.push_back(std::move(name));
    op.dtypes.push_back(dtype);
  }
}

void check_names(const UserOp& op) {
  const UserOpDefinition& d = op.definition;
  if (op.inputs.empty()) bad(d, "it has no inputs");
  if (d.outputs.empty()) bad(d, "it has no outputs");
  std::set<std::string> seen;
  const auto check = [&](const std::string& name, const char* what) {
    if (!is_expression_name(name)) bad(d, std::string(what) + " \"" + name + "\" is no name", "use letters, digits, _");
    if (!seen.insert(name).second) bad(d, "two of its inputs, outputs and attributes are named \"" + name + "\"");
  };
  for (const std::string& name : op.inputs) check(name, "input");
  for (const std::string& name : d.outputs) check(name, "output");
  for (const auto& [name, unused] : d.attributes) check(name, "attribute");
}

class Registry {
 public:
  void add(std::shared_ptr<const UserOp> op, bool replace) {
    const std::unique_lock lock(mutex_);
    std::shared_ptr<const UserOp>& place = ops_[op->op];
    if (place != nullptr && !replace && !(place->definition == op->definition)) {
      throw Error(Code::STATE,
                  "the op " + op->definition.name + " is registered already, with another definition: " + place->text(),
                  "replace it on purpose (replace=True), or choose another name");
    }
    place = std::move(op);
  }
  bool remove(const std::string& name) {
    const std::unique_lock lock(mutex_);
    return std::erase_if(ops_, [&](const auto& entry) { return entry.second->definition.name == name; }) != 0;
  }
  std::shared_ptr<const UserOp> find(const std::string& op) const {
    const std::shared_lock lock(mutex_);
    const auto found = ops_.find(op);
    return found == ops_.end() ? nullptr : found->second;
  }
  std::vector<std::string> names() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [unused, op] : ops_) names.push_back(op->definition.name);
    return names;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<const UserOp>> ops_;
};

Registry& registry() {
  static Registry one;
  return one;
}

}  // namespace

bool UserOp::over_rows() const {
  return std::any_of(expression.terms.begin(), expression.terms.end(),
                     [](const Term& term) { return term.call != nullptr && term.call->over_rows(); });
}

std::string UserOp::text() const {
  std::string list;
  for (const std::string& input : definition.inputs) list += (list.empty() ? "" : ", ") + input;
  const char* separator = "; ";
  for (const auto& [name, value] : definition.attributes) {
    list += separator + name + (value ? fmt::format("={}", *value) : "");
    separator = ", ";
  }
  std::string body = definition.expression;
  std::replace(body.begin(), body.end(), '\n', ';');
  return op_type + "(" + list + "): " + body;
}

std::shared_ptr<const UserOp> make_user_op(const UserOpDefinition& definition) {
  auto op = std::make_shared<UserOp>();
  op->definition = definition;
  split_name(*op);
  split_inputs(*op);
  check_names(*op);
  ExpressionNames names{op->inputs, definition.outputs, {}};
  for (const auto& [name, unused] : definition.attributes) names.attributes.push_back(name);
  try {
    op->expression = parse_expression(definition.expression, names);
    op->shape = ShapeRule::parse(definition.shape, op->inputs, definition.outputs.size());
  } catch (const Error& e) {
    throw e.with_prefix("op " + definition.name + ": ");
  }
  return op;
}

void register_user_op(std::shared_ptr<const UserOp> op, bool replace) { registry().add(std::move(op), replace); }

bool forget_user_op(const std::string& name) { return registry().remove(name); }

std::shared_ptr<const UserOp> find_user_op(const std::string& op) { return registry().find(op); }

std::vector<std::string> user_op_names() { return registry().names(); }

std::shared_ptr<const UserOp> require_user_op(const std::string& name) {
  const size_t colons = name.rfind("::");
  auto op =
      colons == std::string::npos ? nullptr : find_user_op(name.substr(0, colons) + "." + name.substr(colons + 2));
  if (op != nullptr) return op;
  std::string list;
  for (const std::string& known : user_op_names()) list += (list.empty() ? "" : ", ") + known;
  throw Error(Code::ARGUMENT, "no op \"" + name.substr(0, 100) + "\" is registered",
              list.empty() ? "no op is registered" : "registered are " + list);
}

}  // namespace deepjit
