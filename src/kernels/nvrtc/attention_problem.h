// An attention at concrete shapes, as its generated kernel sees it (codegen/contract/attention.h).
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace deepjit::nvrtc_gpu {

struct AttentionProblem {
  std::string reason;  // why there is no such kernel; then nothing else holds
  DType type = DType::FLOAT16;
  DType mask = DType::UNDEFINED;
  int64_t batch = 0, heads = 1, kv_heads = 1, head = 0;
  int64_t queries = 0, keys = 0;
  bool mask_by_query = true;
  bool causal = false;
  double scale = 1;
  std::vector<int64_t> numbers;  // what a launch passes: attention_numbers()

  std::string built_in() const;
};

bool is_attention(const Step& step);
AttentionProblem attention_problem(const StepShape& shape);

}  // namespace deepjit::nvrtc_gpu
