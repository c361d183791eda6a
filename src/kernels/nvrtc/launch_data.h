// What the runtime must know of a generated CUDA kernel beside its code: stored with it as 64-bit words.
//
// The kernel is
//
//   extern "C" __global__ void NAME(one pointer for each operand of the step, inputs first; one long long for each
//                                   of `params`; long long rows, long long columns)
//
// Columns are the last extent, rows the product of the others. Blocks have `threads` threads in x and any number of
// blocks is right: each takes further work in steps of the whole grid. useful_blocks() tells how many find work.
// by_rows: threads_per_row threads share a row, so that rows_per_block rows are in flight in a block. shared_bytes()
// of dynamic shared memory make the kernel keep values between its passes over a row; with none (where that many do
// not fit) it computes them again, and gives the same result.
#pragma once

#include <string>

#include "base/tensor.h"
#include "kernels/launch_words.h"
#include "program/quantity.h"

namespace deepjit::nvrtc_gpu {

// One packed operand an architecture, such as "cubin sm_90"; the source that they were compiled from is kept too.
constexpr const char* kCubinFormat = "cubin sm_";
constexpr const char* kSourceFormat = "CUDA text";
constexpr const char* kLaunchFormat = "cuda launch data 2";
constexpr const char* kComboFormat = "cuda combo launch data 2";

struct LaunchData {
  std::string name;
  bool by_rows = false;
  int64_t threads = 256;   // of a block
  int64_t per_thread = 1;  // neighbouring columns that a thread takes at once
  int64_t rows_per_block = 1;
  int64_t threads_per_row = 1;
  int64_t row_buffers = 0;  // float rows of dynamic shared memory per row in flight
  bool checks = false;      // it looks at indices: behind the numbers it takes int* fault, long long fault_number
  std::vector<Quantity> extents;
  std::vector<Quantity> params;
};

// Of a combo, which takes the arguments of all of its kernels one after another, each's operands, params, rows and
// columns, and behind them how many blocks each gets.
struct ComboData {
  struct Part {
    ComboPlace at;
    LaunchData launch;  // all have blocks of the same size
  };
  std::string name;
  std::vector<Part> parts;
};

Tensor write_launch_data(const LaunchData& data);
Tensor write_combo_data(const ComboData& data);
// Throws Error(ENGINE_RANGE) for words that make no sense.
LaunchData read_launch_data(const Tensor& words);
ComboData read_combo_data(const Tensor& words);

// Dynamic shared memory of a block that keeps rows of `columns` columns; 0 for kernels that keep nothing.
int64_t shared_bytes(const LaunchData& data, int64_t columns);
// Blocks that find work; 0 when there is nothing to do.
int64_t useful_blocks(const LaunchData& data, int64_t rows, int64_t columns);

}  // namespace deepjit::nvrtc_gpu
