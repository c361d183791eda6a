// The epilogue of a convolution, matrix product or window as kernel IR, and as the CUDA text of one element.
//
// A result is rows of columns: columns are its last dim, rows all others. An operand of the epilogue either moves along
// the columns or stays, and moves along some of the leading dims. Its row pattern says which, neighbours merged: "M" a
// value for each row, "S" the same for all, "MS" one for each of the outer dims (a factor for each image and channel),
// "SM", "MSM" ...; the extents of all segments but the first are arguments.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/cuda/emit_cuda_writer.h"
#include "codegen/kernel_ir.h"

namespace deepjit {

struct EpilogueOperand {
  int input = -1;  // of the step
  DType dtype = DType::FLOAT32;
  std::string rows;
  bool columns = false;

  bool operator==(const EpilogueOperand&) const = default;
};

constexpr size_t kMostRowSegments = 3;

struct Epilogue {
  bool empty() const { return ir.insts.empty(); }

  std::vector<EpilogueOperand> operands;
  KernelIr ir;         // loads of access 0: the accumulator; of access i + 1: operand i
  int32_t result = 0;  // an instruction, of FLOAT32
};

// Emits the lines for one element; `accumulator` and `operand(i)` are what is loaded. Returns the result's name. `type`
// is the result's: 16 bits take an erf that is right to 2e-7 and costs half.
std::string emit_epilogue_element(CudaWriter& out, const Epilogue& epilogue, DType type, const std::string& accumulator,
                                  const std::function<std::string(size_t)>& operand);
// The element's place in operand i, relative to its start: `row` and `column` are names, `columns` the row's length;
// the segments' extents are arguments named x<i>_1 and x<i>_2.
std::string epilogue_row_offset(const EpilogueOperand& operand, size_t i, const std::string& row,
                                const std::string& columns);

}  // namespace deepjit
