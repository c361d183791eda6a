// The ops' contexts over concrete shapes: shape rules and reference evaluation inside the runtime.
#pragma once

#include <functional>
#include <unordered_map>

#include "ops/op.h"
#include "program/program.h"

namespace deepjit {

// What binding knows about one buffer.
struct BufferState {
  TensorType type;         // dims that depend on data are symbols
  Tensor known;            // defined when the value is known
  bool available = false;  // produced, or an input
};

// Runs the shape rule of `step`; results in `outputs` (one per output).
void infer_step(const Step& step, const std::vector<const BufferState*>& inputs, std::vector<TensorType>& outputs,
                int64_t& next_symbol);

// Evaluates `step` by its reference on known inputs.
std::vector<Tensor> evaluate_known(const Step& step, const std::vector<const BufferState*>& inputs);

// Evaluates `step` by its reference; `allocate(i, desc)` gives memory for output i.
using AllocateOutput = std::function<void*(int, const TensorDesc&)>;
void evaluate_dynamic(const Step& step, const std::vector<TensorView>& inputs, const AllocateOutput& allocate);

}  // namespace deepjit
