#include "codegen/llvm/emit_llvm_math.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace deepjit::llvm_math {

using llvm::Type;
using llvm::Value;
using llvm::Intrinsic::ID;

namespace {

Type* integer_type(Value* like) {
  Type* scalar = Type::getInt32Ty(like->getContext());
  auto* vector = llvm::dyn_cast<llvm::VectorType>(like->getType());
  return vector == nullptr ? scalar : llvm::VectorType::get(scalar, vector->getElementCount());
}

bool is_512(Value* x) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return vector != nullptr && vector->getNumElements() == 16;
}

}  // namespace

Value* Math::number(Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }
Value* Math::integers(Value* like, int64_t value) { return llvm::ConstantInt::get(integer_type(like), value, true); }

Value* Math::fma(Value* a, Value* b, Value* c) {
  if (!target_.fma) return b_.CreateFAdd(b_.CreateFMul(a, b), c);
  return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

Value* Math::polynomial(Value* x, std::initializer_list<double> highest_first) {
  Value* sum = nullptr;
  for (double c : highest_first) sum = sum == nullptr ? number(x, c) : fma(sum, x, number(x, c));
  return sum;
}

Value* Math::at_most(Value* x, double limit) {
  Value* end = number(x, limit);
  return b_.CreateSelect(b_.CreateFCmpOGT(x, end), end, x);
}

Value* Math::at_least(Value* x, double limit) {
  Value* end = number(x, limit);
  return b_.CreateSelect(b_.CreateFCmpOLT(x, end), end, x);
}

Value* Math::magnitude(Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }

Value* Math::with_sign_of(Value* value, Value* sign) {
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, value, sign);
}

// 14 bits by an instruction, 28 by one Newton step.
Value* Math::rough_reciprocal(Value* x) {
  Value* all = llvm::ConstantInt::get(b_.getInt16Ty(), 0xffff);
  Value* guess = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_rcp14_ps_512, {}, {x, number(x, 0), all});
  return fma(guess, fma(b_.CreateFNeg(x), guess, number(x, 1)), guess);
}

Value* Math::reciprocal(Value* x) {
  if (!target_.avx512 || !is_512(x)) return b_.CreateFDiv(number(x, 1), x);
  Value* y = rough_reciprocal(x);
  return fma(y, fma(b_.CreateFNeg(x), y, number(x, 1)), y);
}

Value* Math::quotient(Value* a, Value* b) {
  if (!target_.avx512 || !is_512(b)) return b_.CreateFDiv(a, b);
  // a/b with one correction: the rounding error of the first guess is made good.
  Value* r = rough_reciprocal(b);
  Value* q = b_.CreateFMul(a, r);
  return fma(fma(b_.CreateFNeg(q), b, a), r, q);
}

Math::Reduced Math::reduce_exp(Value* x) {
  Value* n = b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, b_.CreateFMul(x, number(x, 1.44269504088896341)));
  if (!target_.fma && !target_.avx512) {  // without a rounding instruction: through a large number
    const double magic = 12582912.0;
    n = b_.CreateFSub(b_.CreateFAdd(b_.CreateFMul(x, number(x, 1.44269504088896341)), number(x, magic)),
                      number(x, magic));
  }
  Value* r = fma(n, number(x, -0.693145751953125), x);
  r = fma(n, number(x, -1.428606765330187e-06), r);
  Value* q = polynomial(r, {1.9899587e-4, 1.3933884e-3, 8.3332983e-3, 4.1666463e-2, 1.6666667e-1, 0.5});
  return {n, fma(b_.CreateFMul(r, r), q, r)};
}

Value* Math::scale_by_power(Value* x, Value* n) {
  if (target_.avx512 && is_512(x)) {
    Value* all = llvm::ConstantInt::get(b_.getInt16Ty(), 0xffff);
    Value* current = llvm::ConstantInt::get(b_.getInt32Ty(), 4);
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {}, {x, n, number(x, 0), all, current});
  }
  // 2^n as two factors: each is a normal float where 2^n is not.
  Value* whole = b_.CreateFPToSI(n, integer_type(x));
  Value* half = b_.CreateAShr(whole, 1);
  Value* rest = b_.CreateSub(whole, half);
  auto power = [&](Value* e) {
    return b_.CreateBitCast(b_.CreateShl(b_.CreateAdd(e, integers(x, 127)), 23), x->getType());
  };
  return b_.CreateFMul(b_.CreateFMul(x, power(half)), power(rest));
}

Value* Math::exp(Value* x) {
  x = at_most(at_least(x, -104.0), 89.0);
  const Reduced e = reduce_exp(x);
  // A NaN has no integer part; its exponent does not matter.
  Value* n = b_.CreateSelect(b_.CreateFCmpUNO(e.n, e.n), number(x, 0), e.n);
  return scale_by_power(b_.CreateFAdd(number(x, 1), e.m1), target_.avx512 && is_512(x) ? e.n : n);
}

// e^x - 1 for x in [0, 20].
Value* Math::expm1(Value* x) {
  const Reduced e = reduce_exp(x);
  Value* n = b_.CreateSelect(b_.CreateFCmpUNO(e.n, e.n), number(x, 0), e.n);
  Value* scale = scale_by_power(number(x, 1), n);
  return fma(scale, e.m1, b_.CreateFSub(scale, number(x, 1)));
}

Value* Math::tanh(Value* x) {
  Value* t = expm1(b_.CreateFMul(at_most(magnitude(x), 9.1), number(x, 2)));
  return with_sign_of(quotient(t, b_.CreateFAdd(t, number(x, 2))), x);
}

// e^-|x| / (1 + e^-|x|), and 1 instead of the upper e for positive x: no overflow, and small results keep their digits.
Value* Math::sigmoid(Value* x) {
  Value* e = exp(b_.CreateFNeg(magnitude(x)));
  Value* negative = b_.CreateFCmpOLT(x, number(x, 0));
  Value* r = reciprocal(b_.CreateFAdd(e, number(x, 1)));
  return b_.CreateFMul(b_.CreateSelect(negative, e, number(x, 1)), r);
}

Value* Math::erf(Value* x) {
  Value* a = at_most(magnitude(x), 3.925);  // 1 from here on
  Value* z = b_.CreateFMul(a, a);
  Value* p = polynomial(
      z, {2.0533484530e-06, 2.8376237605e-04, 3.7275496870e-03, 5.2630793303e-02, 1.8955858052e-01, 1.1283791065e+00});
  Value* q =
      polynomial(z, {3.8066293200e-05, 1.1527967872e-03, 1.4893350191e-02, 1.1375334859e-01, 5.0132489204e-01, 1.0});
  return with_sign_of(at_most(b_.CreateFMul(a, quotient(p, q)), 1.0), x);
}

Value* Math::log(Value* x) {
  Type* words = integer_type(x);
  Value* tiny = b_.CreateFCmpOLT(x, number(x, 1.17549435e-38));  // subnormal
  Value* scaled = b_.CreateSelect(tiny, b_.CreateFMul(x, number(x, 8388608.0)), x);
  Value* bits = b_.CreateBitCast(scaled, words);
  // The mantissa is then in [sqrt(1/2), sqrt(2)).
  Value* exponent = b_.CreateAShr(b_.CreateSub(bits, integers(x, 0x3f3504f3)), 23);
  Value* mantissa = b_.CreateBitCast(b_.CreateSub(bits, b_.CreateShl(exponent, 23)), x->getType());
  Value* f = b_.CreateFSub(mantissa, number(x, 1));
  Value* n = b_.CreateFSub(b_.CreateSIToFP(exponent, x->getType()), b_.CreateSelect(tiny, number(x, 23), number(x, 0)));
  Value* p = polynomial(f, {0.0714975372, -0.115712009, 0.116615109, -0.124110505, 0.142499372, -0.166684806,
                            0.200007081, -0.249999896, 0.333333313});
  Value* square = b_.CreateFMul(f, f);
  Value* tail = fma(square, fma(f, p, number(x, -0.5)), b_.CreateFMul(n, number(x, 1.42860677e-6)));
  Value* y = fma(n, number(x, 0.693145751953125), b_.CreateFAdd(f, tail));
  y = b_.CreateSelect(b_.CreateFCmpOLT(x, llvm::ConstantFP::getInfinity(x->getType())), y, x);  // infinity and NaN
  y = b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, 0)), llvm::ConstantFP::getInfinity(x->getType(), true), y);
  return b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, 0)), llvm::ConstantFP::getNaN(x->getType()), y);
}

}  // namespace deepjit::llvm_math
