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

// What a shape rule says of one output; `values` are the elements of an integer tensor where they follow from
// shapes alone.
struct InferredOutput {
  TensorType type;
  std::optional<std::vector<Dim>> values;

  // The values as a tensor when all of them are constant, else undefined.
  Tensor known() const;
};

// Runs the shape rule of `step`; one result per output.
std::vector<InferredOutput> infer_step(const Step& step, const std::vector<const BufferState*>& inputs,
                                       int64_t& next_symbol);

// Evaluates `step` by its reference on known inputs.
std::vector<Tensor> evaluate_known(const Step& step, const std::vector<const BufferState*>& inputs);

// Evaluates `step` by its reference; `allocate(i, desc)` gives memory for output i.
using AllocateOutput = std::function<void*(int, const TensorDesc&)>;
void evaluate_dynamic(const Step& step, const std::vector<TensorView>& inputs, const AllocateOutput& allocate);

}  // namespace deepjit
