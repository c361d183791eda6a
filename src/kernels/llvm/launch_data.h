// What the runtime must know of a generated CPU kernel beside its code: stored with it as 64-bit words.
#pragma once

#include "base/tensor.h"
#include "kernels/launch_words.h"
#include "program/quantity.h"

namespace deepjit::llvm_cpu {

constexpr const char* kCodeFormat = "x86-64 code";
constexpr const char* kLaunchFormat = "launch data 3";
constexpr const char* kComboFormat = "combo launch data 2";

struct LaunchData {
  int64_t entry = 0;              // offset of the function in the code
  int64_t row_buffers = 0;        // float rows of scratch memory
  bool reduces = false;           // a row is never split
  int64_t cost = 1;               // of one element, in rough instructions
  std::vector<Quantity> extents;  // rows, then columns
  Quantity row;                   // places that each column goes through by itself; 1 when the columns are the row
  std::vector<Quantity> params;
  // Inputs whose elements index, the limits that they must keep, and the places of the steps in the region's block that
  // read by them.
  std::vector<int64_t> index_inputs;
  std::vector<Quantity> index_limits;
  std::vector<int64_t> index_ops;
};

// Of a combo: its kernels in one object, and a function that runs them all on one thread:
//
//   void combo(void* const* operands, const int64_t* params, void* scratch)
//
// over the operands of all kernels one after another, and each kernel's params followed by its rows and its columns.
struct ComboData {
  struct Part {
    ComboPlace at;
    LaunchData launch;
  };
  int64_t entry = 0;
  std::vector<Part> parts;
};

Tensor write_launch_data(const LaunchData& data);
Tensor write_combo_data(const ComboData& data);
// Throws Error(ENGINE_RANGE) for words that make no sense.
LaunchData read_launch_data(const Tensor& words);
ComboData read_combo_data(const Tensor& words);

}  // namespace deepjit::llvm_cpu
