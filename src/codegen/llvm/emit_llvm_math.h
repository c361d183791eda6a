// Elementary functions on float vectors as LLVM IR: no calls, no branches.
//
// Each takes and gives a vector of floats (any width) or one float. Errors against the true value, tested over the
// whole range: exp and log within 2 units in the last place, sigmoid and tanh within 3, erf within 5; results below the
// smallest normal float within one such unit of that. NaN stays NaN.
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace deepjit::llvm_math {

struct Target {
  bool fma = false;     // one rounding multiply-add
  bool avx512 = false;  // 512-bit scale and reciprocal instructions
};

class Math {
 public:
  Math(llvm::IRBuilder<>& builder, Target target) : b_(builder), target_(target) {}

  llvm::Value* exp(llvm::Value* x);
  llvm::Value* log(llvm::Value* x);
  llvm::Value* erf(llvm::Value* x);
  llvm::Value* tanh(llvm::Value* x);
  llvm::Value* sigmoid(llvm::Value* x);

 private:
  llvm::Value* number(llvm::Value* like, double value);
  llvm::Value* integers(llvm::Value* like, int64_t value);
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* polynomial(llvm::Value* x, std::initializer_list<double> highest_first);
  llvm::Value* at_most(llvm::Value* x, double limit);  // NaN stays
  llvm::Value* at_least(llvm::Value* x, double limit);
  llvm::Value* with_sign_of(llvm::Value* magnitude, llvm::Value* sign);
  llvm::Value* magnitude(llvm::Value* x);
  // 1 / x for finite x far from the ends of the range.
  llvm::Value* reciprocal(llvm::Value* x);
  llvm::Value* rough_reciprocal(llvm::Value* x);
  llvm::Value* quotient(llvm::Value* a, llvm::Value* b);
  // x = n ln 2 + r: gives n as a float and e^r - 1.
  struct Reduced {
    llvm::Value* n;
    llvm::Value* m1;
  };
  Reduced reduce_exp(llvm::Value* x);
  llvm::Value* scale_by_power(llvm::Value* x, llvm::Value* n);
  llvm::Value* expm1(llvm::Value* x);

  llvm::IRBuilder<>& b_;
  Target target_;
};

}  // namespace deepjit::llvm_math
