// Tests user ops against their references, and registers those that pass.
//
// An op is run as its generated kernel and as its steps one by one, on the operands of user_op_cases.h, and both are
// compared with the reference; without one, with each other. Nothing is registered while ops are tested: other threads
// see a new op when it has passed, and until then the old one, if there was one.
#pragma once

#include <vector>

#include "import/user_ops/registry.h"

namespace deepjit {

struct UserOpReport {
  std::string op;
  size_t cases = 0;
  size_t elements = 0;
  double largest_error = 0;
  bool with_reference = false;
  std::vector<DType> generated;  // in which every case ran as one generated kernel; in others the steps ran one by one
};

// Throws RUN_VALUE with the first element that differs, 2xx where the op means nothing for a type, and what the
// reference throws.
UserOpReport check_user_op(const RegisteredOp& entry);

struct OpToRegister {
  std::shared_ptr<const UserOp> op;
  std::shared_ptr<const UserOpTest> test;  // with a dtype at least
  bool check = true;                       // false: the test waits for check_user_op
};

// Checks shape rules and names, tests, and registers all or none. The report of an op without `check` is empty.
std::vector<UserOpReport> register_tested_ops(const std::vector<OpToRegister>& ops, bool replace);

}  // namespace deepjit
