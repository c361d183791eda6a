// What the runtime must know of a generated contraction or window kernel beside its code.
//
// The kernel is
//
//   extern "C" __global__ void NAME(one pointer for each input of the step, the output's,
//                                   products: float* parts, unsigned int* arrived,
//                                   long long numbers, for each operand of the epilogue two extents)
//
// with the numbers that codegen/contract tells (contract_numbers() of products, emit_window() of windows).
#pragma once

#include <string>

#include "base/tensor.h"

namespace deepjit::nvrtc_gpu {

constexpr const char* kContractFormat = "cuda contract launch data 2";

struct ContractData {
  std::string name;
  std::string built_in;  // ContractProblem::built_in of the step that it was made for
  int64_t threads = 128;
  int64_t shared_bytes = 0;
  int64_t tile_m = 1, tile_n = 1, split = 1;  // of products
  // Of packed weights: blocks along m that run together. There are then no more than fit, each with several tiles.
  int64_t cluster = 0;
  int64_t map_rows = 0;  // of A's rows that a tensor copy takes; 0: the kernel has no map as its last argument
  // Of windows: the results of a thread; of a block that shares its part of an image.
  int64_t pixels = 1, rows = 1, chunk = 1;
  int64_t across = 0, down = 0, channels = 0;
};

Tensor write_contract_data(const ContractData& data);
ContractData read_contract_data(const Tensor& words);  // ENGINE_RANGE

}  // namespace deepjit::nvrtc_gpu
