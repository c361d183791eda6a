// Convolutions, products, pools and attentions as generated kernels, against the reference, without a GPU: the text
// runs under the emulation in both orders of threads, operands lie at both ends of guarded memory.
#pragma once

#include "cuda_run_util.h"
#include "emulated_device.h"

namespace deepjit {

struct ContractOperand {
  DType dtype = DType::UNDEFINED;
  Dims dims = {};
  bool constant = false;
};

struct ContractCase {
  std::string op;
  Attributes attrs;
  std::vector<ContractOperand> inputs;
  std::vector<std::string> variants;  // empty: all that are offered
  Dims result;
};

// One step of a program, its data, and what the reference makes of it.
struct MadeCase {
  Program program;
  StepShape shape;
  std::vector<Tensor> data;
  Tensor expected;
  std::vector<std::pair<std::string, Tactic>> kernels;  // by the text's name
  std::string text;

  void run_reference();
};

std::unique_ptr<MadeCase> make_case(const ContractCase& c, bool tf32 = false);
Tensor random_operand(DType dtype, const Dims& dims, uint64_t seed);
// Of these variants, or of all that are offered.
void add_kernels(std::vector<std::string> variants, MadeCase& made, CudaOnCpu& kernels);
// What one launch writes, with operands at one end of guarded memory.
Tensor run_once(const MadeCase& made, const Tactic& tactic, EmulatedDevice& device, bool backwards);
// All cases; NVRTC compiles them for these architectures.
void check_contracts(const std::vector<ContractCase>& cases, bool tf32 = false,
                     const std::vector<int>& architectures = {});
void check_made(const std::vector<std::unique_ptr<MadeCase>>& all,
                const std::vector<std::vector<std::string>>& variants, bool tf32 = false,
                const std::vector<int>& architectures = {});

inline Attributes with(std::initializer_list<std::pair<const char*, Attribute>> list) {
  Attributes attrs;
  for (const auto& [name, value] : list) attrs.set(name, value);
  return attrs;
}

using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

inline Attributes conv(const Ints& strides, const Ints& pads, int64_t group = 1, const Ints& dilations = {1, 1},
                       const Strings& epilogue = {}) {
  Attributes attrs = with({{"layout", std::string("NHWC")},
                           {"strides", strides},
                           {"pads", pads},
                           {"group", group},
                           {"dilations", dilations}});
  if (!epilogue.empty()) attrs.set("epilogue", epilogue);
  return attrs;
}

}  // namespace deepjit
