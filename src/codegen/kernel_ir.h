// The kernel IR: what one generated kernel computes, free of any target.
//
// A kernel walks a box of axes. Every axis but the last is parallel; the last one is the "row". Without
// reductions the row is parallel too. Scalar instructions in SSA form say what happens at one point of the
// box: an instruction is per element, or per row when it depends on reductions over the row, constants and
// loads that do not move along the row. Loads and stores go through index maps: an offset plus a stride for each axis,
// plus, for a load, an index that an instruction computes; a load may have a condition under which it is not made.
// Extents, strides and offsets are products of the operands' dims, known at launch, so that one kernel serves every
// shape. Emitters (emit_llvm, emit_cuda) turn a kernel into code.
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
  SIZE,      // sizes[access], INT64
  INDEX,     // the coordinate along axis `access`, INT64
  LOAD,      // access; args: an INT64 number of elements to add to the place or -1, a BOOL condition or -1: 0 when false
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
std::string_view opcode_name(Opcode op);
// What it costs, in rough instructions.
int rough_cost(Opcode op);

// How an operand is walked: its element type in memory, where it starts (a sum, in elements) and a stride in elements
// for each axis.
struct Access {
  int32_t operand = -1;
  DType dtype = DType::FLOAT32;
  std::vector<Quantity> strides;
  std::vector<Quantity> offset = {};

  void add_offset(const Quantity& q);
  bool operator==(const Access&) const = default;
  bool moves(size_t axis) const { return !(strides[axis] == Quantity{0, {}}); }
  bool moves_along_row() const { return moves(strides.size() - 1); }
  bool moves_between_rows() const {
    for (size_t axis = 0; axis + 1 < strides.size(); ++axis) {
      if (moves(axis)) return true;
    }
    return false;
  }
};

struct KernelIr;
// Does the load read one element after another of the row, whatever the instructions say?
bool is_plain_load(const KernelIr& kernel, const Inst& inst);

struct Store {
  int32_t value = -1;   // an instruction
  int32_t access = -1;  // strides of zero along the row: stored once a row
};

// The elements of an input that index: all lie in [-limit, limit), or the kernel does not run. Whoever launches it
// looks.
struct IndexCheck {
  int32_t operand = -1;
  Quantity limit;
  int32_t op = 0;  // of the region: the one to tell of
};

struct KernelIr {
  std::vector<Quantity> extents;  // at least one; the last is the row
  std::vector<Inst> insts;
  std::vector<Access> accesses;
  std::vector<Store> stores;
  std::vector<Quantity> sizes;  // that instructions compute with
  std::vector<IndexCheck> checks;
  int32_t inputs = 0;  // operands below this are inputs
  bool reduces = false;
  bool lanes = false;  // better walked in vectors along the axis before the row, each lane with a row of its own

  size_t rank() const { return extents.size(); }
  // The axis that vectors go along.
  size_t vector_axis() const { return rank() - (lanes ? 2 : 1); }
  // Merges neighbouring axes that every operand walks as one and no instruction tells apart; of the first `parallel`
  // axes none is merged with a reduced one. Returns how many parallel axes are left. There is at least one axis
  // afterwards.
  size_t collapse(size_t parallel);
  // Makes one axis of those from `parallel` on where not all operands walk them as one: those that stay where they are
  // along the last axis, such as a scale of each channel, are read at a place that is computed. False, and nothing is
  // changed, when others are among them.
  bool flatten_row(size_t parallel);
  // Does the instruction vary along the row?
  std::vector<bool> per_element() const;
  // The pass over the row that computes each instruction: one more than the latest reduction it reads.
  std::vector<int> stages() const;
  // Equal texts mean equal kernels: caches go by it.
  std::string to_string() const;
};

}  // namespace deepjit
