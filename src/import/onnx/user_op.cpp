// A node of a user op as the canonical nodes that its expression stands for, all named like the node itself.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <variant>

#include "base/visit.h"
#include "graph/infer.h"
#include "import/onnx/builder.h"
#include "import/onnx/node_import.h"
#include "import/onnx/tensor.h"
#include "import/onnx/text.h"
#include "import/user_ops/definition.h"

namespace deepjit::importer {

namespace {

// Of floats: any number, rounded.
bool holds(DType dtype, double number) {
  if (dtype == DType::BOOL) return false;
  if (!is_integer(dtype)) return true;
  bool fits = false;
  visit_integer(dtype, "a number", [&]<typename T>() {
    const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    fits = number >= static_cast<double>(std::numeric_limits<T>::min()) && number < end;
  });
  return fits && std::floor(number) == number;
}

// The value of a term: a number while only numbers went into it.
struct Operand {
  Value* value = nullptr;
  double number = 0;

  bool is_number() const { return value == nullptr; }
};

class Expander {
 public:
  Expander(NodeImport& node, const UserOp& op) : node_(node), op_(op) {}

  void run() {
    check_operands();
    read_attributes();
    const std::vector<Term>& terms = op_.expression.terms;
    for (size_t i = 0; i < terms.size(); ++i) {
      term_ = i;
      try {
        operands_.push_back(evaluate(terms[i]));
      } catch (const Error& e) {
        if (static_cast<int>(e.code()) / 100 != 2) throw;
        throw error_at(e.code(), op_.definition.expression, terms[i].at, e.message(), e.hint());
      }
    }
    bind_outputs();
    check_shapes();
  }

 private:
  void check_operands() const {
    const size_t wanted = op_.inputs.size();
    if (node_.inputs.size() != wanted || node_.outputs.size() > op_.definition.outputs.size()) {
      throw Error(Code::ARITY,
                  op_.definition.name + " takes " + std::to_string(wanted) + " inputs and gives " +
                      std::to_string(op_.definition.outputs.size()) + " outputs, the node has " +
                      std::to_string(node_.inputs.size()) + " and " + std::to_string(node_.outputs.size()),
                  signature());
    }
    for (size_t i = 0; i < wanted; ++i) {
      const DType got = dtype_of(node_.require_input(i));
      if (!op_.dtypes[i] || got == DType::UNDEFINED || got == *op_.dtypes[i]) continue;
      throw Error(Code::TYPE,
                  "input \"" + op_.inputs[i] + "\" is " + std::string(dtype_name(got)) + ", " + op_.definition.name +
                      " takes " + std::string(dtype_name(*op_.dtypes[i])),
                  signature());
    }
  }

  void read_attributes() {
    for (const auto& [name, value] : node_.attrs.all()) {
      if (op_.definition.attributes.count(name) == 0) {
        throw Error(Code::ATTRIBUTE, op_.definition.name + " has no attribute " + quoted(name), signature());
      }
      if (const auto* integer = std::get_if<int64_t>(&value)) {
        attributes_[name] = static_cast<double>(*integer);
      } else if (const auto* number = std::get_if<float>(&value)) {
        attributes_[name] = *number;
      } else {
        bad_attribute(name, "is no number");
      }
    }
    if (!node_.graphs.empty()) bad_attribute(node_.graphs.begin()->first, "is no number");
    if (!node_.types.empty()) bad_attribute(node_.types.begin()->first, "is no number");
    for (const auto& [name, fallback] : op_.definition.attributes) {
      if (attributes_.count(name) != 0) continue;
      if (!fallback) bad_attribute(name, "is missing");
      attributes_[name] = *fallback;
    }
  }

  [[noreturn]] void bad_attribute(const std::string& name, const std::string& what) const {
    throw Error(Code::ATTRIBUTE, "attribute " + quoted(name) + " of " + op_.definition.name + " " + what, signature());
  }

  std::string signature() const { return "it is " + op_.text().substr(0, 500); }

  Operand evaluate(const Term& term) {
    switch (term.kind) {
      case Term::Kind::NUMBER:
        return {nullptr, term.number};
      case Term::Kind::ATTRIBUTE:
        return {nullptr, attributes_.at(term.name)};
      case Term::Kind::INPUT:
        return {node_.input(term.input)};
      case Term::Kind::CALL:
        break;
    }
    const UserFunction& call = *term.call;
    if (call.kind == UserFunction::Kind::WHERE) return where(term);
    if (call.kind == UserFunction::Kind::MAP) return map(term);
    const Operand x = operand(term, 0);
    if (x.is_number()) fail(call.name + " needs a tensor, this is a number");
    if (call.kind == UserFunction::Kind::REDUCE) {
      Attributes keep;
      keep.set("keepdims", int64_t{1});
      return emit(call.op, {x.value, node_.ints(axes(term))}, std::move(keep));
    }
    if (call.kind == UserFunction::Kind::SQUEEZE) return emit(call.op, {x.value, node_.ints(axes(term))});
    if (call.kind == UserFunction::Kind::OVER_ROW) {
      Attributes axis;
      axis.set("axis", axes(term).front());
      return emit(call.op, {x.value}, std::move(axis));
    }
    if (call.kind == UserFunction::Kind::CAST) {
      Attributes to;
      to.set("to", static_cast<int64_t>(call.to));
      return emit(call.op, {x.value}, std::move(to));
    }
    const Operand like = operand(term, 1);
    if (like.is_number()) fail("the type of a number is that of its neighbours: there is nothing to be like");
    return emit(call.op, {x.value, like.value});
  }

  Operand map(const Term& term) {
    std::vector<double> numbers;
    Value* like = nullptr;
    for (size_t i = 0; i < term.operands.size(); ++i) {
      const Operand x = operand(term, i);
      numbers.push_back(x.number);
      if (!x.is_number() && like == nullptr) like = x.value;
    }
    if (like == nullptr) {
      if (term.call->fold == nullptr) fail(term.call->name + " needs a tensor, this is a number");
      return {nullptr, term.call->fold(numbers.data())};
    }
    std::vector<Value*> inputs;
    for (size_t i = 0; i < term.operands.size(); ++i) inputs.push_back(tensor(operand(term, i), like));
    return emit(term.call->op, std::move(inputs));
  }

  // A condition that is a number is known now.
  Operand where(const Term& term) {
    const Operand condition = operand(term, 0);
    const Operand yes = operand(term, 1);
    const Operand no = operand(term, 2);
    if (condition.is_number()) return condition.number != 0 ? yes : no;
    Value* like = !yes.is_number() ? yes.value : !no.is_number() ? no.value : main_input();
    return emit(term.call->op, {condition.value, tensor(yes, like), tensor(no, like)});
  }

  const Operand& operand(const Term& term, size_t i) const { return operands_[term.operands[i]]; }

  // Numbers without a tensor beside them take the type of the first input that has none of its own.
  Value* main_input() const {
    for (size_t i = 0; i < op_.dtypes.size(); ++i) {
      if (!op_.dtypes[i]) return node_.input(i);
    }
    return node_.input(0);
  }

  Value* tensor(const Operand& x, Value* like) {
    if (!x.is_number()) return x.value;
    const DType dtype = dtype_of(like);
    if (dtype == DType::BOOL && (x.number == 0 || x.number == 1)) {
      return node_.constant(Tensor::from<bool>(dtype, {}, std::array{x.number != 0}));
    }
    if (!holds(dtype, x.number)) {
      const std::string name(dtype_name(dtype));
      fail(fmt::format("the number {} meets a tensor of {}, which cannot hold it", x.number, name),
           "cast the tensor first: float32(...)");
    }
    return node_.scalar_like(x.number, like);
  }

  // What follows the first operand; else the attribute "axis", else the last axis.
  std::vector<int64_t> axes(const Term& term) const {
    std::vector<int64_t> axes;
    const auto axis = attributes_.find("axis");
    if (term.operands.size() == 1) {
      axes.push_back(integer(axis == attributes_.end() ? -1 : axis->second));
    }
    for (size_t i = 1; i < term.operands.size(); ++i) {
      if (!operand(term, i).is_number()) fail("an axis of " + term.call->name + " is a number, not a tensor");
      axes.push_back(integer(operand(term, i).number));
    }
    return axes;
  }

  static int64_t integer(double number) {
    if (std::floor(number) != number || std::fabs(number) > kMaxRank) {
      fail(fmt::format("an axis is a whole number from -16 to 15, not {}", number));
    }
    return static_cast<int64_t>(number);
  }

  Operand emit(const std::string& op, std::vector<Value*> inputs, Attributes attrs = {}) {
    Node* made = emit_node(op, std::move(inputs), std::move(attrs));
    require_type(*made);
    return {made->output(0)};
  }

  // The node that makes an output has the output's name at once.
  Node* emit_node(const std::string& op, std::vector<Value*> inputs, Attributes attrs) {
    for (size_t i = 0; i < node_.outputs.size(); ++i) {
      if (op_.expression.results[i] != term_ || !node_.has_output(i)) continue;
      const std::string& name = node_.outputs[i];
      Node* made = node_.builder.add_node(node_.scope, op, node_.name, std::move(inputs), std::move(attrs),
                                          {node_.builder.value_name(node_.scope, name)});
      node_.builder.define(node_.scope, name, made->output(0));
      return made;
    }
    return node_.emit_many(op, std::move(inputs), std::move(attrs), 1);
  }

  // Operands that mean nothing are told at once, so that run() knows their place in the expression.
  static void require_type(Node& made) {
    const auto is_known = [](const Value* value) { return value->type.dtype != DType::UNDEFINED; };
    if (is_known(made.output(0)) || !std::all_of(made.inputs.begin(), made.inputs.end(), is_known)) return;
    try {
      infer_node(made);
    } catch (const Error& e) {
      const std::string label = "node \"" + made.name + "\" (" + made.op + "): ";  // infer_node's
      const bool labelled = e.message().rfind(label, 0) == 0;
      throw Error(e.code(), labelled ? e.message().substr(label.size()) : e.message(), e.hint());
    }
  }

  void bind_outputs() {
    for (size_t i = 0; i < op_.definition.outputs.size(); ++i) {
      const size_t result = op_.expression.results[i];
      const Operand& x = operands_[result];
      const Term& term = op_.expression.terms[result];
      if (x.is_number()) {
        fail_at(op_.definition.expression, term.at,
                "the output \"" + op_.definition.outputs[i] + "\" is a number: no tensor goes into it");
      }
      results_.push_back(x.value);
      if (node_.has_output(i) && node_.scope.values.count(node_.outputs[i]) == 0) {
        node_.define(i, "Identity", {x.value});
      }
    }
  }

  void check_shapes() const {
    std::vector<Shape> inputs;
    std::vector<Shape> outputs;
    for (const Value* value : node_.inputs) inputs.push_back(value->type.shape);
    for (const Value* value : results_) outputs.push_back(value->type.shape);
    op_.shape.check(inputs, outputs, op_.definition.outputs);
  }

  [[noreturn]] static void fail(const std::string& message, const std::string& hint = "") {
    throw Error(Code::ATTRIBUTE, message, hint);
  }

  NodeImport& node_;
  const UserOp& op_;
  std::map<std::string, double> attributes_;
  std::vector<Operand> operands_;  // one a term
  std::vector<const Value*> results_;
  size_t term_ = 0;
};

}  // namespace

void import_user_op(NodeImport& node, const UserOp& op) { Expander(node, op).run(); }

}  // namespace deepjit::importer
