// If, Loop and Scan at run time.
#pragma once

#include <memory>
#include <vector>

#include "runtime/binding.h"
#include "runtime/observer.h"

namespace deepjit {

// The bodies a control step has bound so far, and the memory it keeps between iterations.
struct ControlState {
  struct Bound {
    int32_t block;
    std::vector<TensorDesc> key;  // binding_key of the block's inputs and imports
    std::unique_ptr<Binding> binding;
  };
  std::vector<Bound> bound;
  std::vector<ValueMemory> memory;  // carried values and stacked outputs
};

void execute_control(const ProgramInfo& info, Binding& outer, BoundStep& bound, Observer* observer);

}  // namespace deepjit
