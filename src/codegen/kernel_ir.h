// The kernel IR: what one generated kernel computes, free of any target.
//
// A kernel walks a box of axes. Every axis but the last is parallel; the last one is the "row". Without
// reductions the row is parallel too. Scalar instructions in SSA form say what happens at one point of the
// box: an instruction is per element, or per row when it depends on reductions over the row, constants and
// loads that do not move along the row. Loads and stores go through affine index maps: an offset of zero plus a
// stride for each axis. Extents and strides are products of the operands' dims, known at launch, so that one
// kernel serves every shape. Emitters (emit_llvm, emit_cuda) turn a kernel into code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"
#include "program/quantity.h"

namespace deepjit {

// clang-format off
enum class Opcode : uint8_t {
  CONST,     // number
  ROW_SIZE,  // elements of the row, as a float
  LOAD,      // access
  CAST,      // to `type`: float to integer truncates, to bool tests for nonzero
  ROUND_TO,  // through a narrower float type (`access` holds its DType) and back
  // unary
  NEG, ABS, SQRT, EXP, LOG, ERF, TANH, SIGMOID, FLOOR, CEIL, ROUND, NOT, IS_NAN, RECIPROCAL,
  // binary; MIN and MAX give NaN when either is NaN
  ADD, SUB, MUL, DIV, MIN, MAX, EQ, LT, LE, AND, OR, XOR,
  SELECT,  // condition, then, else
  // reductions over the row; MINIMUM and MAXIMUM give NaN for NaN
  SUM, PRODUCT, MINIMUM, MAXIMUM,
};
// clang-format on

struct Inst {
  Opcode op = Opcode::CONST;
  DType type = DType::FLOAT32;  // FLOAT32, FLOAT64, INT32, INT64 or BOOL
  int32_t args[3] = {-1, -1, -1};
  double number = 0;
  int32_t access = -1;

  bool operator==(const Inst&) const = default;
};

bool is_reduction(Opcode op);
bool is_transcendental(Opcode op);  // the elementary functions: exp, log, erf, tanh, sigmoid
int arity(Opcode op);
std::string_view opcode_name(Opcode op);

// How an operand is walked: its element type in memory and a stride in elements for each axis.
struct Access {
  int32_t operand = -1;
  DType dtype = DType::FLOAT32;
  std::vector<Quantity> strides;

  bool operator==(const Access&) const = default;
  bool moves(size_t axis) const { return !(strides[axis] == Quantity{0, {}}); }
  bool moves_along_row() const { return moves(strides.size() - 1); }
};

struct Store {
  int32_t value = -1;   // an instruction
  int32_t access = -1;  // strides of zero along the row: stored once a row
};

struct KernelIr {
  std::vector<Quantity> extents;  // at least one; the last is the row
  std::vector<Inst> insts;
  std::vector<Access> accesses;
  std::vector<Store> stores;
  int32_t inputs = 0;  // operands below this are inputs
  bool reduces = false;

  size_t rank() const { return extents.size(); }
  // Does the instruction vary along the row?
  std::vector<bool> per_element() const;
  // The pass over the row that computes each instruction: one more than the latest reduction it reads.
  std::vector<int> stages() const;
  // Equal texts mean equal kernels: caches go by it.
  std::string to_string() const;
};

}  // namespace deepjit
