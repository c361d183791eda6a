// Ops that a user defines, as expressions over the ops that exist.
//
// A node of a registered op is imported as the nodes that its expression stands for, each named like the user's node.
// So shape inference, passes, fusion, code generation on every device, the ledger and the engine file know nothing of
// user ops. registry.h has those that the process knows.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/user_ops/expression.h"
#include "import/user_ops/shape_rule.h"

namespace deepjit {

// As the user writes it.
struct UserOpDefinition {
  std::string name;                 // "my.domain::Name"
  std::vector<std::string> inputs;  // "x", or with its element type "mask: bool"
  std::vector<std::string> outputs = {"y"};
  std::map<std::string, std::optional<double>> attributes;  // with defaults; nothing: the node must give it
  std::string expression;                                   // expression.h has the language
  std::string shape;                                        // shape_rule.h

  bool operator==(const UserOpDefinition&) const = default;
};

struct UserOp {
  UserOpDefinition definition;
  std::string domain, op_type;
  std::vector<std::string> inputs;           // names
  std::vector<std::optional<DType>> dtypes;  // of inputs that have a type of their own
  Expression expression;
  ShapeRule shape;

  bool over_rows() const;
  std::string text() const;  // "Name(x, b; alpha=1): y = x * ..."
};

// Does deepjit import such nodes by itself, as com.microsoft's Gelu?
bool is_own_op(const std::string& domain, const std::string& op_type);

// Checks names, expression and rule, without a model. Throws ARGUMENT, DEPTH, LIMIT.
std::shared_ptr<const UserOp> make_user_op(const UserOpDefinition& definition);

// Imports a node of the op on symbolic shapes: throws SHAPE_MISMATCH, TYPE, ... when the expression makes no sense, or
// yields other shapes than its rule.
void check_user_op_shapes(const std::shared_ptr<const UserOp>& op, DType dtype = DType::FLOAT32);

// The definitions of a JSON text: {"ops": [{"name": "my.domain::Name", "inputs": ["x"], "expression": "...", ...}]}.
// An expression may be a list of lines. Throws ARGUMENT, with line and column of text that is no JSON.
std::vector<UserOpDefinition> parse_user_ops(const std::string& json);

// At least 3, and enough for an attribute "axis" with a default.
int usual_rank(const UserOp& op);

// How a node of the op is given operands in a model that checks it: dims are names or numbers.
using UserOpDims = std::vector<std::vector<std::string>>;
// An ONNX model of one node; inputs without a type of their own get `dtype`. Attributes without a default are 1.
std::string model_of_user_op(const UserOp& op, DType dtype, const UserOpDims& dims);
// Operands that lie as they usually do: what the rule's patterns say, or `rank` equal dims "D0", "D1", ...
UserOpDims plain_user_op_dims(const UserOp& op, int rank, int leading = 2);

}  // namespace deepjit
