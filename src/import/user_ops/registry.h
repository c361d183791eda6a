// The user ops that a process knows, and what each is tested against.
//
// Every change makes a new table and puts it in the place of the old one: a list of ops is known wholly or not at all,
// and who holds a table - an import does, from its start to its end - never sees it change. Safe to use from several
// threads. Ops have one spelling everywhere: "domain::Name".
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "import/user_ops/definition.h"

namespace deepjit {

// Computes an op's outputs from its inputs, whose shapes broadcast as the op lets them.
using UserOpReference = std::function<std::vector<Tensor>(const std::vector<TensorView>& inputs,
                                                          const std::map<std::string, double>& attributes)>;

struct UserOpTest {
  UserOpReference reference;  // empty: generated kernels are compared with the op's steps one by one
  std::vector<DType> dtypes = {DType::FLOAT32, DType::FLOAT64, DType::FLOAT16};  // of inputs without one of their own
  double tolerance = 0;                                                          // 0: by the type
};

struct RegisteredOp {
  std::shared_ptr<const UserOp> op;
  std::shared_ptr<const UserOpTest> test;  // nullptr: what was known of this definition, else UserOpTest{}
};

using UserOps = std::map<std::string, RegisteredOp>;  // by name

// What is known now; never nullptr, and `test` is never nullptr in it.
std::shared_ptr<const UserOps> registered_user_ops();
// Throws STATE when a name has another definition and not `replace`, ARGUMENT when two of `ops` share a name.
void check_user_ops_are_new(const std::vector<RegisteredOp>& ops, bool replace);
// The same, and makes all of them known at once.
void register_user_ops(std::vector<RegisteredOp> ops, bool replace = false);
// Whether there was one.
bool forget_user_op(const std::string& name);
// Throws ARGUMENT, with the names that are known.
RegisteredOp require_user_op(const std::string& name);

// Registers the ops of a JSON text (parse_user_ops). Each is checked by check_user_op_shapes first.
void register_user_ops(const std::string& json, bool replace = false);

}  // namespace deepjit
