// The families of ops that the oneDNN provider runs. Each is one launch_<family>.cpp and one line in launch.cpp.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/onednn/primitive_kernel.h"

namespace deepjit::onednn {

// Variants of a step, best guess first, or why there are none.
struct Variants {
  std::vector<std::string> names;
  std::string reason;
};

struct Family {
  std::vector<std::string> ops;
  Variants (*variants)(const StepShape& shape);
  // nullptr when oneDNN cannot run the step at these shapes.
  std::unique_ptr<PrimitiveKernel> (*make)(const StepShape& shape, const Tactic& tactic);
};

Family conv_family();            // Conv, ConvTranspose
Family matmul_family();          // MatMul, Gemm
Family eltwise_family();         // one input
Family binary_family();          // Add, Mul ...
Family pool_family();            // MaxPool, AveragePool and their global forms
Family norm_family();            // Softmax, LogSoftmax, LayerNormalization
Family reduce_family();          // ReduceMean ...
Family move_family();            // Transpose, Concat
Family resize_family();          // Resize
Family rnn_family();             // LSTM, GRU
Family integer_matmul_family();  // MatMulInteger, QLinearMatMul
Family integer_conv_family();    // ConvInteger, QLinearConv

// Whether the step is done before a second thread has woken up. It then runs on one: faster, and not held up by
// whatever else the machine does.
bool is_small(const StepShape& shape);
// The family's kernel, on one thread when the step is small.
std::unique_ptr<PrimitiveKernel> make_kernel(const Family& family, const StepShape& shape, const Tactic& tactic);

// The family of the step's op, or nullptr.
const Family* find_family(const std::string& op);

// What keeps oneDNN from a step whatever its op: an element type, an empty operand. "" when nothing does. Looks at
// the first `inputs` inputs and the outputs that are wanted.
std::string common_obstacle(const StepShape& shape, DType dtype, size_t inputs = SIZE_MAX);
inline bool wants_output(const StepShape& shape, int i) {
  return static_cast<size_t>(i) < shape.outputs.size() && out(shape, i).dtype != DType::UNDEFINED;
}

extern const WeightsTransform kLstmGates;       // ONNX's gate order i o f c to oneDNN's i f c o
extern const WeightsTransform kFlippedWeights;  // uint8 as int8: every value, and the zero point, minus 128
extern const WeightsTransform kTapWeights;      // convolution weights [A, B, taps] to [A, taps, B]

// The op's name without our prefix: "Conv" for "deepjit.Conv".
std::string base_op(const Step& step);

// Which of oneDNN's implementations a family takes, by name.
using Accepts = bool (*)(const std::string& name);
inline bool is_optimised(const std::string& name) { return name.rfind("ref", 0) != 0; }
inline bool is_any(const std::string&) { return true; }
// 8-bit products without the VNNI or AMX instructions saturate pair sums at 16 bits.
inline bool is_exact_integer(const std::string& name) {
  for (const char* isa : {"vnni", "amx", "bf16", "fp16"}) {
    if (name.find(isa) != std::string::npos) return true;
  }
  return false;
}

constexpr size_t kMaxImpls = 3;

// Appends prefix + name of up to kMaxImpls accepted implementations.
template <typename PrimitiveDesc>
void append_impls(PrimitiveDesc pd, const std::string& prefix, Variants& variants, Accepts accepts = is_optimised) {
  size_t count = 0;
  if (!pd) return;
  do {
    const std::string name = pd.impl_info_str();
    if (!accepts(name)) continue;
    const std::string full = prefix + name;
    bool known = false;
    for (const std::string& have : variants.names) known = known || have == full;
    if (known) continue;
    variants.names.push_back(full);
    ++count;
  } while (count < kMaxImpls && pd.next_impl());
}

// Moves pd to the implementation called `name`, else to its first accepted one. False when there is none.
template <typename PrimitiveDesc>
bool select_impl(PrimitiveDesc& pd, const std::function<PrimitiveDesc()>& create, const std::string& name,
                 Accepts accepts = is_optimised) {
  for (const bool exact : {true, false}) {
    pd = create();
    if (!pd) return false;
    do {
      const std::string have = pd.impl_info_str();
      if (exact ? have == name : accepts(have)) return true;
    } while (pd.next_impl());
  }
  return false;
}

// "mode/impl" in two.
std::pair<std::string, std::string> split_variant(const std::string& variant);

}  // namespace deepjit::onednn
