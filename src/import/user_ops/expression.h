// The text of a user op, parsed: calls of functions whose operands stand before them.
//
//   t = x * sigmoid(alpha * x)      # statements end with a line or a semicolon; within parentheses lines go on
//   y = t + max(b, 0)
//
// Operators, the loosest first: or, and, not, comparisons, + -, * /, a sign, **. Names are inputs, attributes and what
// was defined before. Nothing here is recursive but the parser itself, whose depth is limited, so that hostile text
// ends in an Error. Errors are ARGUMENT, DEPTH or LIMIT; their hint shows the line with a mark below the column.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "import/user_ops/functions.h"

namespace deepjit {

struct Term {
  enum class Kind { NUMBER, INPUT, ATTRIBUTE, CALL };
  Kind kind = Kind::NUMBER;
  double number = 0;
  std::string name;                    // of an attribute
  size_t input = 0;                    // its number
  const UserFunction* call = nullptr;  // what is called
  std::vector<size_t> operands;        // of a call: terms before this one
  size_t at = 0;                       // where it stands in the text
};

struct Expression {
  std::vector<Term> terms;
  std::vector<size_t> results;  // one term an output
};

struct ExpressionNames {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> attributes;
  std::string op;  // the op itself, which an expression cannot call
};

// With one output the last statement may be the bare expression of it.
Expression parse_expression(const std::string& text, const ExpressionNames& names);

// Letters, digits and '_', no digit first, and no word of the language.
bool is_expression_name(const std::string& text);

// An error at a place of the text: the message gets line and column, the hint `help`, the line and a mark below the
// place.
Error error_at(Code code, const std::string& text, size_t at, const std::string& message, const std::string& help = "");
// Throws it as ARGUMENT.
[[noreturn]] void fail_at(const std::string& text, size_t at, const std::string& message, const std::string& help = "");

}  // namespace deepjit
