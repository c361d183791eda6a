// The functions that a user op's expression may call, and the canonical op behind each.
#pragma once

#include <span>
#include <string>

#include "base/types.h"

namespace deepjit {

struct UserFunction {
  enum class Kind {
    MAP,       // of elements, operands broadcast
    WHERE,     // ... of a condition and two values
    REDUCE,    // over rows: the first operand, then axes as numbers; the row keeps its dim, of size 1
    OVER_ROW,  // a row to a row of the same size: the first operand, then perhaps the axis
    SQUEEZE,   // drops dims of size 1: the first operand, then perhaps axes
    CAST,      // to `to`
    LIKE,      // the first operand in the type of the second
  };
  std::string name;
  Kind kind = Kind::MAP;
  std::string op;
  size_t least = 1;                         // operands
  size_t most = 1;                          // operands
  double (*fold)(const double*) = nullptr;  // of numbers alone; nullptr: needs a tensor
  DType to = DType::UNDEFINED;

  std::string arity() const;  // "2", "1 or 2", "at least 1"
  bool over_rows() const { return kind == Kind::REDUCE || kind == Kind::OVER_ROW || kind == Kind::SQUEEZE; }
};

// nullptr when there is none.
const UserFunction* find_function(const std::string& name);
// The names that are written as calls, for messages: "abs, ceil, ...".
std::string function_list();
// The name that is written as a call and most like `name`, for messages; "" when none is like it.
std::string closest_function(const std::string& name);

}  // namespace deepjit
