#include "import/user_ops/definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

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
    bad(op.definition, "the domain " + op.domain + " is taken", "choose a domain of your own, such as my.ops");
  }
  if (is_own_op(op.domain, op.op_type)) {
    bad(op.definition, "deepjit has an operator of this name, which its nodes go on to mean",
        "choose a domain of your own, such as my.ops");
  }
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

// Without comments and indentation; a line within parentheses goes on.
std::string in_one_line(const std::string& expression) {
  std::string text;
  int open = 0;
  std::istringstream lines(expression);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    const size_t first = line.find_first_not_of(" \t\r;");
    if (first == std::string::npos) continue;
    line = line.substr(first, line.find_last_not_of(" \t\r;") - first + 1);
    text += (text.empty() ? "" : open > 0 ? " " : "; ") + line;
    for (char c : line) open += c == '(' ? 1 : c == ')' ? -1 : 0;
  }
  return text;
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
  return op_type + "(" + list + "): " + in_one_line(definition.expression);
}

std::shared_ptr<const UserOp> make_user_op(const UserOpDefinition& definition) {
  auto op = std::make_shared<UserOp>();
  op->definition = definition;
  split_name(*op);
  split_inputs(*op);
  check_names(*op);
  ExpressionNames names{op->inputs, definition.outputs, {}, op->op_type};
  for (const auto& [name, unused] : definition.attributes) names.attributes.push_back(name);
  try {
    op->expression = parse_expression(definition.expression, names);
    op->shape = ShapeRule::parse(definition.shape, op->inputs, definition.outputs.size());
  } catch (const Error& e) {
    throw e.with_prefix("op " + definition.name + ": ");
  }
  return op;
}

}  // namespace deepjit
