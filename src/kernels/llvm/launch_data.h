// What the runtime must know of a generated CPU kernel beside its code: stored with it as 64-bit words.
#pragma once

#include "base/tensor.h"
#include "program/quantity.h"

namespace deepjit::llvm_cpu {

constexpr const char* kCodeFormat = "x86-64 code";
constexpr const char* kLaunchFormat = "launch data 2";

struct LaunchData {
  int64_t entry = 0;              // offset of the function in the code
  int64_t row_buffers = 0;        // float rows of scratch memory
  bool reduces = false;           // a row is never split
  int64_t cost = 1;               // of one element, in rough instructions
  std::vector<Quantity> extents;  // rows, then columns
  Quantity row;                   // places that each column goes through by itself; 1 when the columns are the row
  std::vector<Quantity> params;
};

Tensor write_launch_data(const LaunchData& data);
// Throws Error(ENGINE_RANGE) for words that make no sense.
LaunchData read_launch_data(const Tensor& words);

}  // namespace deepjit::llvm_cpu
