// The program: what tune, plan, the engine file and the runtime share.
//
// A Program is the lowered graph: buffers, and blocks of steps. Block 0 is the entry; a step of If, Loop or
// Scan names the blocks of its bodies. Buffer numbers are global over all blocks, so a body reads outer
// buffers by their number. One step is one launch. Needs base only: the runtime links it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/attributes.h"
#include "base/dim.h"
#include "base/tensor.h"
#include "program/why.h"

namespace deepjit {

struct Buffer {
  std::string name;
  TensorType type;  // symbolic shape as the compiler knows it; the runtime uses its own concrete one
  bool is_constant = false;
  Tensor constant;  // a constant's data; undefined when only packed forms of it are kept
};

// A constant operand in the form that a tactic wants, made at build and saved in the engine.
struct PackedOperand {
  int32_t input = -1;  // which input of the step
  std::string format;  // the provider's own description of the layout
  Tensor data;         // uint8 bytes
};

// The chosen way to run a step. `provider` and `variant` name it; `packed` holds its prepared constants.
struct Tactic {
  std::string provider = "reference";
  std::string variant;
  std::vector<PackedOperand> packed;
  double time_us = 0;    // measured centre at build, 0 when it was not timed
  double max_error = 0;  // largest relative error seen against the reference at verification
};

struct Step {
  std::string op;
  std::string name;
  Attributes attrs;
  std::vector<int32_t> inputs;  // buffer numbers; -1 for an omitted operand
  std::vector<int32_t> outputs;
  std::vector<int32_t> blocks;  // bodies: If then, else; Loop, Scan body; a region's steps
  std::vector<std::string> origins;
  Tactic tactic;
};

// The op of a fused region. Its one block holds the steps that it stands for, over the same buffers: a generated kernel
// runs them as one, or they run one by one.
constexpr const char* kRegionOp = "deepjit.Region";

struct Block {
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  std::vector<int32_t> steps;  // indices into Program::steps, in order
};

// An edge of the why-ledger: a value that goes through memory from one kernel to another, and why.
struct LedgerEntry {
  int32_t value = -1;     // buffer
  int32_t producer = -1;  // the step that writes it
  int32_t consumer = -1;  // the step that reads it, there or behind views, or whose bodies read it
  Why rule = Why::NONE;
  std::string reason;         // in words, with this edge's dims and types
  std::string fix;            // the smallest change that would lift it
  Dim bytes;                  // written and read; the symbol "?" when nobody can tell
  int64_t bytes_at_opt = -1;  // the same at the shapes that were tuned for; -1: not known
  int32_t launches = 0;       // that would be saved
};

// Bounds of one input's shape: dims must lie in [min, max]; tuning happens at opt.
struct ShapeRange {
  Dims min, opt, max;
};

struct ProgramInput {
  std::string name;
  int32_t buffer = -1;
  Tensor default_value;  // defined: the input may be left out
  bool has_range = false;
  ShapeRange range;
};

struct ProgramOutput {
  std::string name;
  int32_t buffer = -1;
};

struct Program {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Block> blocks;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;
  std::vector<LedgerEntry> ledger;              // the largest first
  std::map<std::string, std::string> metadata;  // model metadata, build options, versions
  int32_t threads = 0;                          // threads the program was tuned for; 0: as many as the machine has
  // The same model tuned for further shape ranges, each with its ranges in `inputs`; see ranges.h. They have no others.
  std::vector<Program> others;
};

}  // namespace deepjit
