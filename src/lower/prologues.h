// Pointwise kernels as prologues: a region that only a product reads, as its first operand, and the product become one
// region, whose kernel does the region's steps as it reads the operand.
//
// Stands behind tuning, as combos do: whoever joins two steps measures whether that is faster, and parts them if not.
#pragma once

#include <functional>
#include <vector>

#include "program/program.h"

namespace deepjit {

// A region and the product that alone reads it, in the order of the steps of `block`.
struct ProloguePair {
  int32_t block = -1;
  int32_t region = -1, product = -1;
  int32_t chain = -1;  // the region's operand that its steps work on: as large as its result
};

std::vector<ProloguePair> find_prologues(const Program& program, const std::function<bool(const Step&)>& is_product);

// The region takes the product in, at the product's place. Its operands: the chain's, the product's second, all others.
void join_prologue(Program& program, const ProloguePair& pair);
// The way back.
void part_prologue(Program& program, const ProloguePair& pair);

// Parts all that are joined: regions whose last step is a product.
void part_prologues(Program& program, const std::function<bool(const Step&)>& is_product);

}  // namespace deepjit
