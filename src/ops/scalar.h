// Operands that stand for one value: a model may hand over an empty tensor instead.
#pragma once

#include <string>
#include <string_view>

#include "ops/op.h"

namespace deepjit {

// The first of `values`, or Error(SHAPE_MISMATCH) that says what is empty.
template <typename Values>
auto first_of(const Values& values, std::string_view what) {
  if (values.empty()) throw Error(Code::SHAPE_MISMATCH, std::string(what) + " is empty, expected a value");
  return values[0];
}

// Throws Error(SHAPE_MISMATCH) when input i has fewer elements.
inline void expect_elements(const EvalContext& ctx, int i, int64_t count, std::string_view what) {
  if (ctx.input(i).count() >= count) return;
  throw Error(Code::SHAPE_MISMATCH, std::string(what) + " has shape " + ctx.dims(i).to_string() + ", expected " +
                                        std::to_string(count) + " elements");
}

}  // namespace deepjit
