// What the fuzzers run on every input, and where their inputs come from.
//
// A run ends normally when the input is taken or refused as documented. It throws Finding when it is not: an
// INTERNAL error, a foreign exception, a code of the wrong family, a result that contradicts itself. Memory errors,
// undefined behaviour, leaks and hangs are for the sanitizers and libFuzzer to see.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace deepjit::fuzz {

using Input = std::vector<uint8_t>;

struct Finding : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// ONNX bytes -> import -> passes -> lower -> engine -> read again. Work is kept small by small limits.
void run_import(std::span<const uint8_t> bytes);

// An engine: read; what is accepted is written and read again, bound, and run when it is small. The first byte says
// how to take the rest: even, the file itself; odd, the length of the program section (4 bytes), that section and
// the weights, which get their container and hashes here, so that a fuzzer gets past them.
void run_engine(std::span<const uint8_t> bytes);

// One line on what became of an input, for the count of a replay: "taken" or the name of the error.
std::string last_outcome();

// The node tests of the onnx package, at most `max_bytes` each, in the order of their names; every `stride`th.
std::vector<Input> import_seeds(const std::string& folder, size_t max_bytes, size_t stride = 1);
// Engines of the models in `models` that build, as inputs of run_engine.
std::vector<Input> engine_seeds(const std::vector<Input>& models);

// A changed copy of `input`: bits, numbers, pieces; now and then a piece of `other`.
Input mutate_bytes(Input input, std::span<const uint8_t> other, std::mt19937_64& random);
// A model with one part changed to something plausible or extreme; bytes that are no model come back as they are.
Input mutate_model(std::span<const uint8_t> bytes, std::mt19937_64& random);

}  // namespace deepjit::fuzz
