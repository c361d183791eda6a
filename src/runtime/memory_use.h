// How much memory an engine and one context of it are going to take: known before the first run, since shapes decide
// it.
//
// It binds, and so asks kernels for their scratch memory, but allocates nothing and runs nothing. Where the engine's
// device is missing, scratch counts as 0.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/engine.h"

namespace deepjit {

// Bytes; on the device where the engine runs on one, otherwise on the host.
struct MemoryNeeds {
  size_t constants = 0;  // plain and packed; shared by all contexts
  size_t values = 0;     // between steps, and those that a binding fixes
  size_t scratch = 0;
  size_t inputs = 0;  // copies of them; 0 on the CPU
  size_t outputs = 0;
  size_t total() const { return constants + values + scratch + inputs + outputs; }
};

// Shapes of all inputs: as given by name, else the largest of the program's range, else what the given ones say of
// their symbols. INPUT_NAME for another name; ARGUMENT when a dimension stays open. Views without data.
std::vector<TensorView> shapes_of_inputs(const Program& program, const std::map<std::string, Dims>& given);

// Of inputs in the program's order; dtype UNDEFINED means not fed. Data is read where an input's value decides shapes,
// and may be nullptr where it is not known.
MemoryNeeds memory_needs(const Engine& engine, std::span<const TensorView> inputs, int threads = 0);

// The most that shapes given by name need: at the largest of the range, and of several ranges that hold them, of the
// one that needs most.
MemoryNeeds most_memory_needs(const Engine& engine, const std::map<std::string, Dims>& given, int threads = 0);

}  // namespace deepjit
